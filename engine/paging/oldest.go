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
