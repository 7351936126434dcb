package planner

import (
	"slices"

	"github.com/berth-ml/berth/internal/stop"
)

// setLifetimes records when each temporary is written first and used last.
func setLifetimes(steps []Step) {
	for i := range steps {
		for _, s := range steps[i].Out {
			s.first, s.last = i, i
		}
		for _, s := range steps[i].reads() {
			s.last = i
		}
	}
}

// mergeInPlace computes outputs in the memory of a temporary that is used last
// as the step's input, if the op allows that. It returns the temporaries that
// are left.
func mergeInPlace(steps []Step, temps []*Storage, check *stop.Check) []*Storage {
	resolve := func(list []*Storage) {
		for i, s := range list {
			if s.in != nil {
				list[i] = s.in
			}
		}
	}
	for i := range stop.Each(check, steps) {
		st := &steps[i]
		resolve(st.In)
		for g := range st.When {
			if s := st.When[g].Storage; s.in != nil {
				st.When[g].Storage = s.in
			}
		}
		for o, s := range st.Out {
			if t := st.reusable(o, i); t != nil && s.Class == Temporary {
				t.last, s.in, st.Out[o] = s.last, t, t
			}
		}
	}
	return slices.DeleteFunc(temps, func(s *Storage) bool { return s.in != nil })
}

// reusable is the temporary in whose memory output o of st, step i, can be
// computed: no other input or output of the step uses it. It is nil if there
// is none.
func (st *Step) reusable(o, i int) *Storage {
	for _, a := range st.alias(o) {
		t := st.In[a]
		if t.Class == Temporary && t.last == i && t.Size == st.Out[o].Size && count(st.reads(), t) == 1 && !slices.Contains(st.Out, t) {
			return t
		}
	}
	return nil
}

// count is the number of times that s is in list.
func count(list []*Storage, s *Storage) int {
	n := 0
	for _, t := range list {
		if t == s {
			n++
		}
	}
	return n
}
