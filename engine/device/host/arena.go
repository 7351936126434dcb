package host

import (
	"cmp"
	"slices"
)

// alignment of every block, in bytes: a cache line, and the widest vector.
const alignment = 64

// spread is how much more address space than its budget an arena reserves.
// Address space is free; what it buys is that fragmentation does not make an
// allocation fail that the budget allows.
const spread = 4

// span is a range of the arena, in bytes.
type span struct{ off, size int64 }

// arena hands out blocks of one mapping. It is not safe for concurrent use.
//
// A block is in use, cached (free, in the list of its exact size, its pages
// kept) or part of a free span (its pages given back). Blocks in use and
// cached ones together stay within the budget.
type arena struct {
	mem    []byte // nil where memory is only counted
	budget int64
	held   int64 // bytes of the blocks in use and cached
	cached map[int64][]int64
	free   []span // by offset, merged
}

// newArena reserves address space for a budget; none unless mapped.
func newArena(budget int64, mapped bool) (*arena, error) {
	a := &arena{budget: roundUp(budget, alignment), cached: map[int64][]int64{}}
	size := a.budget * spread
	if mapped {
		mem, err := reserve(size)
		if err != nil { // limited address space: do with what the budget needs
			size = a.budget
			mem, err = reserve(size)
		}
		if err != nil {
			return nil, err
		}
		adviseHuge(mem)
		a.mem = mem
	}
	a.free = []span{{0, size}}
	return a, nil
}

// close unmaps the arena: no block may be touched afterwards.
func (a *arena) close() error {
	if a.mem == nil {
		return nil
	}
	mem := a.mem
	a.mem = nil
	return unmap(mem)
}

// bytes views a block; nil where memory is only counted.
func (a *arena) bytes(off, size int64) []byte {
	if a.mem == nil {
		return nil
	}
	return a.mem[off : off+size : off+size]
}

// take finds a block of at least size bytes; it must be given back with the
// same size. An empty block is at offset 0.
func (a *arena) take(size int64) (off int64, ok bool) {
	size = roundUp(size, alignment)
	if size == 0 {
		return 0, true
	}
	if list := a.cached[size]; len(list) > 0 {
		off = list[len(list)-1]
		a.cached[size] = list[:len(list)-1]
		return off, true
	}
	if a.held+size > a.budget {
		a.flush()
	}
	if off, ok = a.carve(size); !ok {
		a.flush()
		off, ok = a.carve(size)
	}
	if ok {
		a.held += size
	}
	return off, ok
}

// give returns a block.
func (a *arena) give(off, size int64) {
	if size = roundUp(size, alignment); size > 0 {
		a.cached[size] = append(a.cached[size], off)
	}
}

// carve cuts size bytes from the smallest free span that has them.
func (a *arena) carve(size int64) (int64, bool) {
	best := -1
	for i, s := range a.free {
		if s.size >= size && (best < 0 || s.size < a.free[best].size) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	s := &a.free[best]
	off := s.off
	if a.mem != nil && !backPages(a.mem, off, size) {
		return 0, false
	}
	s.off += size
	s.size -= size
	if s.size == 0 {
		a.free = slices.Delete(a.free, best, best+1)
	}
	return off, true
}

// flush gives the pages of cached blocks back and merges them with the free
// spans.
func (a *arena) flush() {
	for size, list := range a.cached {
		for _, off := range list {
			if a.mem != nil {
				giveBackPages(a.mem, off, size)
			}
			a.held -= size
			a.free = append(a.free, span{off, size})
		}
		delete(a.cached, size)
	}
	slices.SortFunc(a.free, func(x, y span) int { return cmp.Compare(x.off, y.off) })
	merged := a.free[:0]
	for _, s := range a.free {
		if n := len(merged); n > 0 && merged[n-1].off+merged[n-1].size == s.off {
			merged[n-1].size += s.size
			continue
		}
		merged = append(merged, s)
	}
	a.free = merged
}
