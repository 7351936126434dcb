package memory

import (
	"cmp"
	"slices"
	"sort"
)

// shelf sorts runs by size, and runs of equal size by offset.
type shelf struct {
	runs  []*run
	spare []*run // for reuse
}

// largest is the size of the largest run, 0 if there is none.
func (h *shelf) largest() int64 {
	if n := len(h.runs); n > 0 {
		return h.runs[n-1].size()
	}
	return 0
}

// atLeast is the runs of at least that size, the smallest first.
func (h *shelf) atLeast(size int64) []*run {
	return h.runs[sort.Search(len(h.runs), func(i int) bool { return h.runs[i].size() >= size }):]
}

// add puts a run on the shelf.
func (h *shelf) add(first, last *Block) {
	var r *run
	if n := len(h.spare); n > 0 {
		r, h.spare = h.spare[n-1], h.spare[:n-1]
	} else {
		r = new(run)
	}
	r.first, r.last = first, last
	first.run, last.run = r, r
	i, _ := h.find(r)
	h.runs = slices.Insert(h.runs, i, r)
}

// remove takes a run from the shelf. Its blocks belong to no run then.
func (h *shelf) remove(r *run) {
	i, found := h.find(r)
	if !found {
		panic("BUG: a run of free blocks is not on the shelf")
	}
	h.runs = slices.Delete(h.runs, i, i+1)
	r.first.run, r.last.run = nil, nil
	r.first, r.last = nil, nil
	h.spare = append(h.spare, r)
}

// find is the place of a run on the shelf.
func (h *shelf) find(r *run) (int, bool) {
	return slices.BinarySearchFunc(h.runs, r, func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a.first.Off, b.first.Off))
	})
}
