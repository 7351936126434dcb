package paging

import "cmp"

// Old is an object that could be given up by the rule LRU.
type Old struct {
	Used     uint64 // when it was used last; greater is later
	Distance int    // launches until its next use; Never if there is none
	Name     string // decides between equals
}

// Oldest is the index of the object that leaves first: the one that was used longest
// ago; of those, the one that is used again last.
func Oldest(list []Old) int {
	best := 0
	for i := range list {
		x, y := &list[i], &list[best]
		if cmp.Or(cmp.Compare(x.Used, y.Used), cmp.Compare(y.Distance, x.Distance), cmp.Compare(x.Name, y.Name)) < 0 {
			best = i
		}
	}
	return best
}

// oldest lists the objects to give up by the rule LRU to free so many bytes. It
// appends them to victims; ok is false if all together are too few.
func (m *memory) oldest(victims []Entry, bytes int64, now, after int) (chosen []Entry, ok bool) {
	var list []Old
	var candidates []Candidate
	for o := range m.pages {
		c := m.candidate(o, now)
		if p := &m.pages[o]; !p.here || p.leased == m.clock || c.Distance <= after {
			continue
		}
		list = append(list, Old{uint64(m.pages[o].leased), c.Distance, m.trace.Objects[o].Name})
		candidates = append(candidates, c)
	}
	for bytes > 0 && len(list) > 0 {
		i, last := Oldest(list), len(list)-1
		victims = append(victims, Entry{Candidate: candidates[i]})
		bytes -= candidates[i].Bytes
		list[i], candidates[i] = list[last], candidates[last]
		list, candidates = list[:last], candidates[:last]
	}
	if bytes > 0 {
		return victims[:0], false
	}
	return victims, true
}
