package paging

import "slices"

// Policy is how to make room in a device's memory.
type Policy struct {
	Spare int64 // bytes to keep free, where giving up objects can
	Plan
}

// spareShare is the share of the memory that is kept free.
const spareShare = 64

// unlike bounds what a plan may move beyond what moves without one: that, divided by unlike.
const unlike = 64

// NewPolicy is the policy for a trace. Where objects move at all, a little memory is kept
// free: without any, room for an object means to move most others within the memory. The
// moves are planned, unless more launches would wait for the planned ones, or clearly more would move. A little more
// may: a plan takes its steps for ones that repeat, and some go on to differ.
func NewPolicy(t *Trace, limit int64) Policy {
	p, _ := newPolicy(t, limit)
	return p
}

// newPolicy is NewPolicy, with the replay of the policy.
func newPolicy(t *Trace, limit int64) (best Policy, result Result) {
	if result = replay(t, limit, best); result.Moved() == 0 {
		return best, result
	}
	best.Spare = limit / spareShare
	m := newMemory(t, limit, best)
	result, turns := m.repeat()
	p := Policy{best.Spare, m.plan(turns)}
	if r := replay(t, limit, p); r.Moved() <= result.Moved()+result.Moved()/unlike && r.Waits <= result.Waits {
		return p, r
	}
	return best, result
}

// Replay runs a trace step after step in order of submission, until the memory's
// state repeats. A limit of 0 is none. It follows the [Policy] for the trace.
func Replay(t *Trace, limit int64) Result {
	_, result := newPolicy(t, limit)
	return result
}

// steps bounds the steps that a replay tries until one repeats.
const steps = 16

// replay is Replay with a policy.
func replay(t *Trace, limit int64, p Policy) Result {
	r := Result{Floor: t.Floor()}
	r.Fits = limit <= 0 || r.Floor <= limit
	if !r.Fits {
		return r
	}
	r, _ = newMemory(t, limit, p).repeat()
	return r
}

// repeat plays steps until one begins as an earlier one did: those from that one on repeat in turns. The trace's floor is
// within the limit.
func (m *memory) repeat() (r Result, turns int) {
	var states [][]page
	var counts []Result
	for len(states) < steps {
		before, n := m.state(), len(m.trace.Launches)
		i := slices.IndexFunc(states, func(s []page) bool { return slices.Equal(s, before) })
		if i >= 0 && (m.policy.Leaves == nil || m.policy.Launch(0, i, n) == m.policy.Launch(0, len(states), n)) {
			counts = counts[i:]
			break
		}
		states = append(states, before)
		m.Result = Result{Peak: m.Peak}
		m.step()
		counts = append(counts, m.Result)
	}
	r.Peak, r.Host = m.Peak, m.copies.bytes()
	r.Floor, r.Fits = m.trace.Floor(), true
	r.average(counts)
	return r, len(counts)
}

// state is the pages between two steps.
func (m *memory) state() []page {
	s := slices.Clone(m.pages)
	for i := range s {
		s[i].leased = 0 // it decides nothing
	}
	return s
}

// Result is the outcome of a replay.
type Result struct {
	Peak  int64 // most bytes of objects and scratch at once, in order of submission
	Floor int64 // the largest lease
	Fits  bool  // the floor is within the limit; if not, the rest is zero

	// Of a steady step, an average if steps differ.
	Fed     int64 // bytes of fed objects copied in for the first time in the step
	Loaded  int64 // bytes copied in again after they were given up
	Spilled int64 // bytes copied out to be given up
	Waits   int   // launches that read an object which was given up and not loaded ahead

	Host int64 // bytes of host memory that copies out take, if it is kept for later ones of the same size
}

// Moved is the bytes that move because memory is limited.
func (r *Result) Moved() int64 { return r.Loaded + r.Spilled }

// average fills in the means of the counts of steps that repeat in a circle.
func (r *Result) average(counts []Result) {
	for _, c := range counts {
		r.Fed += c.Fed
		r.Loaded += c.Loaded
		r.Spilled += c.Spilled
		r.Waits += c.Waits
	}
	n := int64(len(counts))
	r.Fed, r.Loaded, r.Spilled, r.Waits = r.Fed/n, r.Loaded/n, r.Spilled/n, r.Waits/len(counts)
}

// Course is what moves in steps among others: in one, or in as many as repeat if they move differently by turns.
type Course struct {
	Moves []Move  // in the order in which they are queued
	Used  []int64 // per launch of these steps: bytes of objects and scratch, once it has its memory and nothing was loaded for later ones
}

// Move is a copy of an object for lack of memory.
type Move struct {
	Launch int  // with which it is queued, counted over the steps of the course
	Object int  // index in Trace.Objects
	Out    bool // it goes to the host; otherwise it comes back
	Ahead  bool // for a later launch
}

// CourseOf is the course of a trace. It decides as [Replay] does.
func CourseOf(t *Trace, limit int64) (c Course) {
	p, result := newPolicy(t, limit)
	if !result.Fits || result.Moved() == 0 {
		return c
	}
	m := newMemory(t, limit, p)
	_, turns := m.repeat()
	before := 0 // launches of the steps before
	m.hears = hears{
		copied: func(x Move) { x.Launch += before; c.Moves = append(c.Moves, x) },
		ran:    func(int) { c.Used = append(c.Used, m.used) },
	}
	for range turns {
		m.step()
		before = len(c.Used)
	}
	return c
}

// During lists, for each move, the launches that can work while it is copied. What is copied has memory until that is over, or from
// when it begins. So a copy out can run during the launches from where its contents are written on, and a copy in during those up
// to the object's next use, each as far as they leave room for it, or only read it.
func (c *Course) During(t *Trace, limit int64) [][]int {
	list, order, n := make([][]int, len(c.Moves)), NewOrder(t), len(t.Launches)
	for i, x := range c.Moves {
		now := x.Launch % n
		distance, _ := order.Next(x.Object, now-1)
		from, until := x.Launch-now+order.last(x.Object, now, x.Out), x.Launch-1+distance
		for range until - from - 1 {
			k := from + 1
			if !x.Out {
				k = until - 1
			}
			l := (k + len(c.Used)) % len(c.Used)
			if !order.at(x.Object, l%n) && t.Lease(&t.Launches[l%n])+Rounded(t.Objects[x.Object].Bytes) > limit {
				break
			}
			if list[i] = append(list[i], l); x.Out {
				from++
			} else {
				until--
			}
		}
	}
	return list
}

// tell tells of a copy.
func (m *memory) tell(object, now int, out bool) {
	if m.hears.copied != nil {
		m.hears.copied(Move{Launch: now, Object: object, Out: out, Ahead: m.ahead})
	}
}
