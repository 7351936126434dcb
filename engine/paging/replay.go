package paging

import "slices"

// steps bounds the steps that a replay tries until one repeats.
const steps = 16

// replay is Replay with a policy.
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
		s[i].leased = 0 // it decides nothing
	}
	return s
}
