package memory

import (
	"cmp"
	"slices"
)

// mostWindows bounds the ranges that one Gather tries to empty.
const mostWindows = 64

// evacuate lists, in p.list, moves of fewer than so many bytes out of a range of
// size bytes to free bytes elsewhere. Of the ranges
// whose blocks find holes, it takes the one with the fewest bytes to move. It reports false if there is none.
func (p *planner) evacuate(size, below int64, movable func(*Block) bool) bool {
	p.findWindows(size, below, movable)
	slices.SortFunc(p.windows, func(a, b window) int {
		return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(a.first.Off, b.first.Off))
	})
	for _, w := range p.windows[:min(len(p.windows), mostWindows)] {
		if p.empty(w, size) {
			return true
		}
	}
	return false
}

// findWindows lists the smallest groups of neighbours, all free or movable, that
// have size bytes together, fewer than below of them taken.
func (p *planner) findWindows(size, below int64, movable func(*Block) bool) {
	p.windows = p.windows[:0]
	w := window{first: p.edge.next}
	for b := p.edge.next; b != p.edge; b = b.next {
		if !b.free && !movable(b) {
			w = window{first: b.next}
			continue
		}
		w.add(b)
		for w.free+w.taken-w.first.Size >= size {
			w.shrink()
		}
		if w.free+w.taken >= size && w.taken < below {
			p.windows = append(p.windows, w)
		}
	}
}

// empty lists the moves that leave size bytes of a window free. It reports false if
// its blocks, the largest first, do not find holes: each takes the smallest that
// has room.
func (p *planner) empty(w window, size int64) bool {
	// Free bytes at an end that are not needed are a hole.
	from := w.first.Off
	if w.first.free {
		from = w.last.end() - size
	}
	p.findHoles(from, from+size)
	p.list = p.list[:0]
	for b := w.first; b != w.last.next; b = b.next {
		if !b.free {
			p.list = append(p.list, Move{Block: b})
		}
	}
	slices.SortFunc(p.list, func(a, b Move) int {
		return cmp.Or(cmp.Compare(b.Block.Size, a.Block.Size), cmp.Compare(a.Block.Off, b.Block.Off))
	})
	for i := range p.list {
		m := &p.list[i]
		h := p.smallestHole(m.Block.Size)
		if h == nil {
			return false
		}
		m.To = h.off
		h.off, h.size = h.off+m.Block.Size, h.size-m.Block.Size
	}
	return true
}

// findHoles lists the free bytes that are not in a range.
func (p *planner) findHoles(from, to int64) {
	p.holes = p.holes[:0]
	for _, r := range p.runs.runs {
		first, last := r.first.Off, r.last.end()
		if n := min(last, from) - first; n > 0 {
			p.holes = append(p.holes, hole{first, n})
		}
		if first = max(first, to); last > first {
			p.holes = append(p.holes, hole{first, last - first})
		}
	}
}

// smallestHole is the smallest hole of at least size bytes, nil if there is none.
func (p *planner) smallestHole(size int64) (best *hole) {
	for i := range p.holes {
		if h := &p.holes[i]; h.size >= size && (best == nil || h.size < best.size) {
			best = h
		}
	}
	return best
}
