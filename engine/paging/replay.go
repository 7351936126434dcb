package paging

import "slices"

// Policy is how to make room in a device's memory.
type Policy struct {
	Ahead int   // launches whose loads are queued before they are due
	Spare int64 // bytes to keep free, where giving up objects can
}

// mostAhead is the most launches whose loads are queued before they are due. The
// host is that far ahead anyway; more only takes memory.
const mostAhead = 3

// spareShare is the share of the memory that is kept free.
const spareShare = 64

// NewPolicy is the policy for a trace. Loads are queued ahead, so that they overlap
// with the launches before: as far as leaves the fewest launches waiting, among
// those that move hardly more than none ahead. Where objects move at all, a little
// memory is kept free: without any, room for an object means to move most others
// within the memory.
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
	result = replay(t, limit, best)
	most := result.Moved() + result.Moved()/20
	for n := 1; n <= mostAhead; n++ {
		p := Policy{n, best.Spare}
		if r := replay(t, limit, p); r.Moved() <= most && r.Waits < result.Waits {
			best, result = p, r
		}
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
	// Replay steps until one begins as an earlier one did: those from that one on repeat.
	m := newMemory(t, limit, p)
	var states [][]page
	var counts []Result
	for len(states) < steps {
		before := m.state()
		if i := slices.IndexFunc(states, func(s []page) bool { return slices.Equal(s, before) }); i >= 0 {
			counts = counts[i:]
			break
		}
		states = append(states, before)
		m.Result = Result{Peak: m.Peak}
		m.step()
		counts = append(counts, m.Result)
	}
	r.Peak, r.Host = m.Peak, m.copies.bytes()
	r.average(counts)
	return r
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

// Move is a copy of an object for lack of memory.
type Move struct {
	Launch int  // index in Trace.Launches of the launch with which it is queued
	Object int  // index in Trace.Objects
	Out    bool // it goes to the host; otherwise it comes back
	Ahead  bool // a later launch needs it, or the memory that it leaves
}

// settled is how many steps are played first. By then, all later steps move the same.
const settled = 3

// Moves lists the moves of a step among others, in the order in which they are queued. It
// decides as [Replay] does.
func Moves(t *Trace, limit int64) (list []Move) {
	p, result := newPolicy(t, limit)
	if !result.Fits || result.Moved() == 0 {
		return nil
	}
	m := newMemory(t, limit, p)
	for range settled {
		m.step()
	}
	m.moved = func(x Move) { list = append(list, x) }
	m.step()
	return list
}

// tell tells of a copy.
func (m *memory) tell(object, now int, out bool) {
	if m.moved != nil {
		m.moved(Move{Launch: now, Object: object, Out: out, Ahead: m.ahead})
	}
}
