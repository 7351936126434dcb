package host

import (
	"slices"

	"github.com/berth-ml/berth/internal/stop"
)

// setLifetimes notes when each temporary is written first and used last.
func setLifetimes(steps []step) {
	for i := range steps {
		for _, s := range steps[i].out {
			s.first, s.last = i, i
		}
		for _, s := range steps[i].in {
			s.last = i
		}
	}
}

// mergeInPlace computes outputs in the memory of a temporary that is used last
// as the step's input, if the op allows that. It returns the temporaries that
// are left.
func mergeInPlace(steps []step, temps []*storage, check *stop.Check) []*storage {
	resolve := func(list []*storage) {
		for i, s := range list {
			if s.in != nil {
				list[i] = s.in
			}
		}
	}
	for i := range stop.Each(check, steps) {
		st := &steps[i]
		resolve(st.in)
		for o, s := range st.out {
			if t := st.reusable(o, i); t != nil && s.class == ofTemp {
				t.last, s.in, st.out[o] = s.last, t, t
			}
		}
	}
	return slices.DeleteFunc(temps, func(s *storage) bool { return s.in != nil })
}

// reusable is the temporary in whose memory output o of st, step i, can be
// computed: no other input or output of the step uses it. It is nil if there
// is none.
func (st *step) reusable(o, i int) *storage {
	for _, a := range st.alias(o) {
		t := st.in[a]
		if t.class == ofTemp && t.last == i && t.size == st.out[o].size && count(st.in, t) == 1 && !slices.Contains(st.out, t) {
			return t
		}
	}
	return nil
}

// count is the number of times that s is in list.
func count(list []*storage, s *storage) int {
	n := 0
	for _, t := range list {
		if t == s {
			n++
		}
	}
	return n
}
