package memory

import (
	"cmp"
	"slices"
)

// mostWindows bounds the ranges that one Gather tries to empty.
const mostWindows = 64

// hole is free bytes to which blocks move.
type hole struct{ off, size int64 }

// evacuate lists, in s.moves, moves of fewer than so many bytes out of a range of
// size bytes to free bytes elsewhere. It takes the range with the fewest bytes to
// move, of those whose blocks find holes. It reports false if there is none.
func (s *Space) evacuate(size, below int64, movable func(*Block) bool) bool {
	s.findWindows(size, below, movable)
	slices.SortFunc(s.windows, func(a, b window) int {
		return cmp.Or(cmp.Compare(a.taken, b.taken), cmp.Compare(a.first.Off, b.first.Off))
	})
	for _, w := range s.windows[:min(len(s.windows), mostWindows)] {
		if s.empty(w, size) {
			return true
		}
	}
	return false
}

// findWindows lists the smallest groups of neighbours, all free or movable, that
// have size bytes together, fewer than below of them taken.
func (s *Space) findWindows(size, below int64, movable func(*Block) bool) {
	s.windows = s.windows[:0]
	w := window{first: s.edge.next}
	for b := s.edge.next; b != &s.edge; b = b.next {
		if !b.free && !movable(b) {
			w = window{first: b.next}
			continue
		}
		w.add(b)
		for w.free+w.taken-w.first.Size >= size {
			w.shrink()
		}
		if w.free+w.taken >= size && w.taken < below {
			s.windows = append(s.windows, w)
		}
	}
}

// empty lists the moves that leave size bytes of a window free. It reports false if
// its blocks, the largest first, do not find holes: each takes the smallest that
// has room.
func (s *Space) empty(w window, size int64) bool {
	// Free bytes at an end that are not needed are a hole.
	from := w.first.Off
	if w.first.free {
		from = w.last.end() - size
	}
	s.findHoles(from, from+size)
	s.moves = s.moves[:0]
	for b := w.first; b != w.last.next; b = b.next {
		if !b.free {
			s.moves = append(s.moves, Move{Block: b})
		}
	}
	slices.SortFunc(s.moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(b.Block.Size, a.Block.Size), cmp.Compare(a.Block.Off, b.Block.Off))
	})
	for i := range s.moves {
		m := &s.moves[i]
		h := s.smallestHole(m.Block.Size)
		if h == nil {
			return false
		}
		m.To = h.off
		h.off, h.size = h.off+m.Block.Size, h.size-m.Block.Size
	}
	return true
}

// findHoles lists the free bytes that are not in a range.
func (s *Space) findHoles(from, to int64) {
	s.holes = s.holes[:0]
	for _, r := range s.runs.runs {
		first, last := r.first.Off, r.last.end()
		if n := min(last, from) - first; n > 0 {
			s.holes = append(s.holes, hole{first, n})
		}
		if first = max(first, to); last > first {
			s.holes = append(s.holes, hole{first, last - first})
		}
	}
}

// smallestHole is the smallest hole of at least size bytes, nil if there is none.
func (s *Space) smallestHole(size int64) (best *hole) {
	for i := range s.holes {
		if h := &s.holes[i]; h.size >= size && (best == nil || h.size < best.size) {
			best = h
		}
	}
	return best
}
