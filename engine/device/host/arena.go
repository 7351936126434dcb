package host

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// alignment of every block, in bytes: a cache line, and the widest vector.
const alignment = 64

// mostSpread is the address space of an arena, in budgets, where there is plenty.
// Address space costs nothing, and with more of it than the budget an allocation
// within the budget does not fail because free memory lies in pieces.
const mostSpread = 4

// block is a range of the arena, in bytes.
type block struct{ off, size int64 }

// arena hands out blocks of one mapping. It is not safe for concurrent use.
//
// A block is in use; or cached, which is free with its pages kept, in the list
// of its exact size; or part of a free range, its pages given back. Blocks in
// use and cached blocks together stay within the budget.
type arena struct {
	mem    []byte            // nil if memory is only counted
	budget int64             // bytes
	taken  int64             // bytes of blocks in use and cached
	cached map[int64][]int64 // offsets by size
	free   []block           // by offset; neighbours are merged
}

// newArena reserves address space for a budget, or none if memory is only
// counted.
func newArena(budget int64, mapped bool) (*arena, error) {
	a := &arena{budget: roundUp(budget, alignment), cached: map[int64][]int64{}}
	size := a.budget * spreadWithin(a.budget, unlimited)
	if mapped {
		var err error
		if a.mem, size, err = reserveAround(a.budget); err != nil {
			return nil, err
		}
		adviseHuge(a.mem)
	}
	a.free = []block{{0, size}}
	return a, nil
}

// reserveAround reserves size bytes of address space for a budget.
func reserveAround(budget int64) (mem []byte, size int64, err error) {
	left := leastAddresses()
	if budget > left.bytes {
		return nil, 0, fmt.Errorf("%w: it is %d bytes, but %s leaves %d: lower the budget, or raise that limit",
			device.ErrBudget, budget, left.limit, left.bytes)
	}
	size = budget * spreadWithin(budget, left)
	if mem, err = reserve(size); err != nil { // by a limit that is not known here
		size = budget
		mem, err = reserve(size)
	}
	if err != nil {
		err = fmt.Errorf("reserving %d bytes of address space for the memory budget: %w", budget, err)
	}
	return mem, size, err
}

// spreadWithin is the address space for a budget, in budgets: as much as leaves
// half of the addresses to others, but at least 1.
func spreadWithin(budget int64, left addresses) int64 {
	spread := int64(mostSpread)
	for spread > 1 && budget > left.bytes/2/spread {
		spread /= 2
	}
	return spread
}

// close unmaps the arena. No block may be touched afterwards.
func (a *arena) close() error {
	if a.mem == nil {
		return nil
	}
	mem := a.mem
	a.mem = nil
	return unmap(mem)
}

// bytes is the memory of a block; nil if memory is only counted.
func (a *arena) bytes(off, size int64) []byte {
	if a.mem == nil {
		return nil
	}
	return a.mem[off : off+size : off+size]
}

// take finds a block of at least size bytes, with undefined contents. It must be
// given back with the same size. An empty block is at offset 0.
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
	if a.taken+size > a.budget {
		a.flush()
	}
	if off, ok = a.carve(size); !ok {
		a.flush()
		off, ok = a.carve(size)
	}
	if ok {
		a.taken += size
	}
	return off, ok
}

// give returns a block.
func (a *arena) give(off, size int64) {
	if size = roundUp(size, alignment); size > 0 {
		a.cached[size] = append(a.cached[size], off)
	}
}

// carve cuts size bytes from the smallest free range that has them.
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

// flush gives the pages of all cached blocks back and merges the blocks with the
// free ranges.
func (a *arena) flush() {
	for size, list := range a.cached {
		for _, off := range list {
			if a.mem != nil {
				giveBackPages(a.mem, off, size)
			}
			a.taken -= size
			a.free = append(a.free, block{off, size})
		}
		delete(a.cached, size)
	}
	slices.SortFunc(a.free, func(x, y block) int { return cmp.Compare(x.off, y.off) })
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
