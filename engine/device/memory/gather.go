package memory

import "github.com/berth-ml/berth/engine/device"

// Gather finds moves of taken blocks, to be made in this order, after which a free
// run of so many bytes is left. Only blocks for which movable is true move. Two
// ways are compared, and the one that moves fewer bytes is taken: blocks slide
// down one after the other, so that the free bytes between them meet behind the
// last; or the blocks in a range of the size leave it for free bytes elsewhere. ok
// is false if neither is possible; the answer is empty if there is room already.
// It is valid until the next call. Without room, it counts as a Take that failed.
func (s *Space) Gather(bytes int64, movable func(*Block) bool) (moves []Move, ok bool) {
	size := roundUp(bytes, s.align)
	if size <= s.Largest() {
		return nil, true
	}
	s.tight = true
	return s.plan.moves(size, s.size, movable)
}

// moves compares the two ways of Gather. The space has so many bytes.
func (p *planner) moves(size, space int64, movable func(*Block) bool) ([]Move, bool) {
	best, ok := p.slidable(size, movable)
	most := space
	if ok {
		most = best.taken
	}
	if p.evacuate(size, most, movable) {
		return p.list, true
	}
	p.list = p.list[:0]
	if ok {
		p.slideAll(best)
	}
	return p.list, ok
}

// Move makes a move that Gather has found. It gives the block's new place, and the
// rest of the bytes: as many as were free there. Both are taken, and the old block
// is not to be used any more. The bytes of the old block may overlap both: copy
// them, once the events of after have happened and the last uses of the block, and
// give the rest back with the event of the copy. after is valid until the next
// call.
func (s *Space) Move(m Move) (to, rest *Block, after []device.Event) {
	b := m.Block
	if p := b.prev; p.free && p.run.first.Off == m.To {
		return s.slide(b)
	}
	to = s.at(m.To)
	last := to
	for last.run == nil || last.run.last != last {
		last = last.next
	}
	s.after = s.after[:0]
	s.cut(last.run, to, b.Size, nil)
	s.used += b.Size
	b.Owner = nil
	return to, b, s.after
}

// at is the free block that begins at an offset. It splits one, if need be.
func (s *Space) at(off int64) *Block {
	b := s.edge.next
	for b.end() <= off {
		b = b.next
	}
	if b.Off == off {
		return b
	}
	rest := s.split(b, off-b.Off)
	if r := b.run; r != nil && r.last == b {
		rest.run, r.last = r, rest
		if r.first != b {
			b.run = nil
		}
	}
	return rest
}

// slide moves a block to the beginning of the free run before it. The rest is
// behind it.
func (s *Space) slide(b *Block) (to, rest *Block, after []device.Event) {
	r := b.prev.run
	to = r.first
	s.runs.remove(r)
	s.after = s.after[:0]
	for x := to; x != b; x = x.next {
		for _, e := range x.uses {
			if !s.over(e) {
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
