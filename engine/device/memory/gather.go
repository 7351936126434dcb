package memory

import "github.com/berth-ml/berth/engine/device"

// Gather finds taken blocks that, slid down one after the other in the order of
// the answer, leave a free run of so many bytes after the last. Of all such
// choices it takes the one with the fewest bytes to slide. Only blocks for which
// movable is true slide. ok is false if no choice leaves as much; the answer is
// empty if there is room already. It is valid until the next call.
func (s *Space) Gather(bytes int64, movable func(*Block) bool) (blocks []*Block, ok bool) {
	size := roundUp(bytes, s.align)
	if size <= s.Largest() {
		return nil, true
	}
	best := window{taken: -1}
	w := window{first: s.edge.next}
	for b := s.edge.next; b != &s.edge; b = b.next {
		if !b.free && !movable(b) {
			w = window{first: b.next}
			continue
		}
		w.add(b)
		for w.free >= size {
			w.last = b
			if best.taken < 0 || w.taken < best.taken {
				best = w
			}
			w.shrink()
		}
	}
	s.gathered = s.gathered[:0]
	if best.taken < 0 {
		return nil, false
	}
	for b := best.first; b != best.last; b = b.next {
		if !b.free {
			s.gathered = append(s.gathered, b)
		}
	}
	return s.gathered, true
}

// window is neighbouring blocks, with their free and their taken bytes.
type window struct {
	first, last *Block
	free, taken int64
}

func (w *window) add(b *Block) {
	if b.free {
		w.free += b.Size
	} else {
		w.taken += b.Size
	}
}

// shrink takes the first block off.
func (w *window) shrink() {
	if b := w.first; b.free {
		w.free -= b.Size
	} else {
		w.taken -= b.Size
	}
	w.first = w.first.next
}

// Slide moves a taken block to the beginning of the free run before it. It gives
// the block's new place, and the rest of the bytes: as many as were free, now
// behind the block. Both are taken. The bytes of b, which is no longer a block,
// may overlap both: copy them, once the events of after have happened and the
// last uses of b, and give the rest back with the event of the copy. after is
// valid until the next call.
func (s *Space) Slide(b *Block) (to, rest *Block, after []device.Event) {
	r := b.prev.run
	if !b.prev.free || b.free || r == nil {
		panic("BUG: there is no free run before the block")
	}
	to = r.first
	s.runs.remove(r)
	s.after = s.after[:0]
	for x := to; x != b; x = x.next {
		for _, e := range x.uses {
			if !s.passed.Covers(e) {
				s.after.Add(e)
			}
		}
	}
	for to.next != b {
		s.absorb(to, to.next)
	}
	free, size := to.Size, b.Size
	s.absorb(to, b)
	to.free, to.uses = false, to.uses[:0]
	rest = s.split(to, size)
	s.used += free
	return to, rest, s.after
}
