package paging

import "slices"

// Result is what a replay computes.
type Result struct {
	Peak  int64 // most bytes of objects and scratch at once, in order of submission
	Floor int64 // the largest lease
	Fits  bool  // the floor is within the limit; without it, the rest is zero

	// Of a steady step, an average if steps differ.
	Fed     int64 // bytes of fed objects copied in for the first time in the step
	Loaded  int64 // bytes copied in again after they were given up
	Spilled int64 // bytes copied out to be given up
	Waits   int   // launches that need a Loaded object
}

// Moved is the bytes that move because memory is limited.
func (r *Result) Moved() int64 { return r.Loaded + r.Spilled }

// steps bounds the steps that a replay tries until one repeats.
const steps = 16

// Replay runs a trace step after step in order of submission, until the memory's
// state repeats. A limit of 0 is none.
func Replay(t *Trace, limit int64) Result {
	r := Result{Floor: t.Floor()}
	r.Fits = limit <= 0 || r.Floor <= limit
	if !r.Fits {
		return r
	}
	m := newMemory(t, limit)
	var states [][]page
	var counts []Result
	for len(states) < steps {
		before := slices.Clone(m.pages)
		if i := slices.IndexFunc(states, func(s []page) bool { return slices.Equal(s, before) }); i >= 0 {
			counts = counts[i:]
			break
		}
		states = append(states, before)
		m.Result = Result{Peak: m.Peak}
		m.step()
		counts = append(counts, m.Result)
	}
	r.Peak = m.Peak
	r.average(counts)
	return r
}

// average takes the counts of steps that repeat in a circle.
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

// page is the state of one object.
type page struct {
	here  bool // it has memory on the device
	dirty bool // written since its last copy out
	fresh bool // fed, and not copied in yet
}

// memory is a device's memory during a replay.
type memory struct {
	Result  // of the step so far; Peak of all steps
	trace   *Trace
	order   *order
	limit   int64
	used    int64 // bytes of the objects that are here
	pages   []page
	locked  []int // per object, the launch that last needed it or chose it as a victim, counted over all steps
	clock   int   // launches so far, over all steps
	victims []int // of the launch under way
}

func newMemory(t *Trace, limit int64) *memory {
	return &memory{trace: t, order: newOrder(t), limit: limit, pages: make([]page, len(t.Objects)), locked: make([]int, len(t.Objects))}
}

// step runs all launches once.
func (m *memory) step() {
	for i, o := range m.trace.Objects {
		if o.Fed {
			m.drop(i)
			m.pages[i].fresh = true
		}
	}
	for i := range m.trace.Launches {
		m.launch(i)
	}
}

// launch takes memory for a launch, runs it, and frees what ends with it.
func (m *memory) launch(now int) {
	l := &m.trace.Launches[now]
	m.clock++
	need := Rounded(l.Scratch)
	for _, u := range l.Uses {
		m.locked[u.Object] = m.clock
		if !m.pages[u.Object].here {
			need += m.rounded(u.Object)
		}
	}
	m.makeRoom(need, now)
	waits := false
	for _, u := range l.Uses {
		waits = m.use(u) || waits
	}
	if waits {
		m.Waits++
	}
	m.Peak = max(m.Peak, m.used+Rounded(l.Scratch))
	for _, o := range l.Frees {
		m.drop(o)
	}
}

// use brings an object here, and reports whether it had been given up.
func (m *memory) use(u Use) (loads bool) {
	p := &m.pages[u.Object]
	if !p.here {
		p.here = true
		m.used += m.rounded(u.Object)
		if u.Read {
			loads = m.copyIn(u.Object)
		}
	}
	p.fresh = false
	p.dirty = p.dirty || u.Write
	return loads
}

func (m *memory) copyIn(object int) (again bool) {
	bytes := m.trace.Objects[object].Bytes
	if m.pages[object].fresh {
		m.Fed += bytes
		return false
	}
	m.Loaded += bytes
	return true
}

// giveUp takes an object's memory, after a copy out if its contents are nowhere
// else.
func (m *memory) giveUp(object, now int) {
	if m.cost(object, now).out {
		m.Spilled += m.trace.Objects[object].Bytes
	}
	m.drop(object)
}

// drop takes an object's memory. Its contents on the device are lost.
func (m *memory) drop(object int) {
	if m.pages[object].here {
		m.used -= m.rounded(object)
	}
	m.pages[object] = page{}
}

func (m *memory) rounded(object int) int64 { return Rounded(m.trace.Objects[object].Bytes) }
