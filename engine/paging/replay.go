package paging

import "slices"

// Result is what a replay computes.
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

// steps bounds the steps that a replay tries until one repeats.
const steps = 16

// Replay runs a trace step after step in order of submission, until the memory's
// state repeats. A limit of 0 is none. It follows the [Policy] for the trace and a rule.
func Replay(t *Trace, limit int64, r Rule) Result {
	_, result := newPolicy(t, limit, r)
	return result
}

// replay is Replay with another policy.
func replay(t *Trace, limit int64, p Policy) Result {
	r := Result{Floor: t.Floor()}
	r.Fits = limit <= 0 || r.Floor <= limit
	if !r.Fits {
		return r
	}
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
		if s[i].leased = m.clock - s[i].leased; !s[i].here || m.policy.Rule != LRU { // then it decides nothing
			s[i].leased = 0
		}
	}
	return s
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
