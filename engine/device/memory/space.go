package memory

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Space shares out a range of bytes. It is not safe for concurrent use.
//
// All bytes belong to blocks, taken or free. Free neighbours form a run, from
// which blocks of any size are taken; they stay apart in it because each has its
// own last uses.
type Space struct {
	size, align int64
	used, peak  int64        // bytes of taken blocks: now, and the most so far
	reach       int64        // the end of the bytes that were ever taken
	edge        Block        // the neighbour of the first and of the last block; never free
	runs        shelf        // of free blocks
	passed      device.Fence // what the host has waited for
	tight       bool         // a Take has failed since Passed was called last
	after       device.Fence // the answer of the last Take or Move
	plan        planner      // of Gather
	spare       *Block       // blocks for reuse, linked by next
	looks       int          // at blocks, by all calls
}

// New makes a space of so many bytes, rounded up to the alignment. All blocks are
// multiples of the alignment.
func New(bytes, align int64) *Space {
	s := &Space{size: roundUp(bytes, align), align: align}
	s.edge.prev, s.edge.next = &s.edge, &s.edge
	s.plan = planner{edge: &s.edge, runs: &s.runs}
	if s.size > 0 {
		b := &Block{Size: s.size, free: true}
		s.insert(b, &s.edge)
		s.runs.add(b, b)
	}
	return s
}

// Used is the bytes of the blocks that are taken.
func (s *Space) Used() int64 { return s.used }

// Largest is the size of the largest block that can be taken.
func (s *Space) Largest() int64 { return s.runs.largest() }

// Take takes a block of at least that many bytes, for work in queue q. The queue
// must wait for the events of after, well or not, before it writes the block;
// after is valid until the next call. Bytes that q can write without waiting come
// first: those that it used last itself, and those of which the host has waited
// for all uses. Bytes that nobody took yet are among them only while twice the
// peak, and a little more, has not been taken: otherwise a queue that the host
// never waits for would use up the space. Among them, and among the others if there are none, it takes
// from the smallest run that is large enough. ok is false if no run is.
//
// After a failure, and until Passed is called, only the start of a run is taken:
// if all blocks are given back, any that fit in the space together then do fit.
func (s *Space) Take(bytes int64, q device.Queue) (b *Block, after []device.Event, ok bool) {
	size := roundUp(bytes, s.align)
	if size == 0 {
		return s.newBlock(), nil, true
	}
	fits := s.runs.atLeast(size)
	if len(fits) == 0 {
		s.tight = true
		return nil, nil, false
	}
	r, first := s.ready(fits, size, q)
	if r == nil || s.wasteful(first.Off+size) {
		r, first = fits[0], fits[0].first
	}
	s.after = s.after[:0]
	s.cut(r, first, size, q)
	s.used += size
	s.peak, s.reach = max(s.peak, s.used), max(s.reach, first.end())
	return first, s.after, true
}

// spareBytes may be taken beyond twice the peak without waiting.
const spareBytes = 1 << 20

// wasteful reports whether a block that ends at an offset would take bytes that nobody took
// yet, although waiting would free enough others.
func (s *Space) wasteful(end int64) bool { return end > s.reach && end > 2*s.peak+spareBytes }

// mostLooks bounds the blocks at which one Take looks for bytes that need no
// waiting.
const mostLooks = 256

// ready finds, in the smallest run that has them, neighbours of size bytes
// together that q can write without waiting, and returns the first of them. If
// it has looked at many blocks in vain, it tries the end of the largest run, in
// which the bytes are that nobody used yet.
func (s *Space) ready(fits []*run, size int64, q device.Queue) (*run, *Block) {
	until := s.looks + mostLooks
	for _, r := range fits {
		first := r.first
		for b := r.first; s.looks < until; b = b.next {
			b = s.settle(b)
			if !s.isReady(b, q) {
				if s.tight {
					break
				}
				first = b.next
			} else if b.end()-first.Off >= size {
				return r, first
			}
			if b == r.last {
				break
			}
		}
		if s.looks >= until && s.tight {
			return nil, nil
		}
		if s.looks >= until {
			return s.readyAtEnd(fits[len(fits)-1], size, q)
		}
	}
	return nil, nil
}

// readyAtEnd is ready for the end of one run.
func (s *Space) readyAtEnd(r *run, size int64, q device.Queue) (*run, *Block) {
	until := s.looks + mostLooks
	for b := r.last; s.looks < until && s.isReady(b, q); b = b.prev {
		if r.last.end()-b.Off >= size {
			return r, b
		}
		if b == r.first {
			break
		}
	}
	return nil, nil
}

// isReady reports whether q can write a free block without waiting.
func (s *Space) isReady(b *Block, q device.Queue) bool {
	s.looks++
	for _, e := range b.uses {
		if e.Queue != q && !s.over(e) {
			return false
		}
	}
	return true
}

// cut makes the block first the first size bytes from its offset on, and takes
// it out of run r. It records the events that q must wait for.
func (s *Space) cut(r *run, first *Block, size int64, q device.Queue) {
	from, to := r.first, r.last
	s.runs.remove(r)
	for b := first; ; b = first.next {
		need := size
		if b != first {
			need -= first.Size
		}
		if b.Size > need {
			rest := s.split(b, need)
			if b == to {
				to = rest
			}
		}
		for _, e := range b.uses {
			if e.Queue != q && !s.over(e) {
				s.after.Add(e)
			}
		}
		s.looks++
		if b != first {
			if b == to {
				to = first
			}
			s.absorb(first, b)
		}
		if first.Size == size {
			break
		}
	}
	first.free, first.uses = false, first.uses[:0]
	if from != first {
		s.runs.add(from, first.prev)
	}
	if to != first {
		s.runs.add(first.next, to)
	}
}

// Give returns a block. Whoever takes its bytes next waits for the events of
// after: the last uses, or, of a block that was not used, the place in the
// taker's queue at which it was taken.
func (s *Space) Give(b *Block, after ...device.Event) {
	if b.free {
		panic(fmt.Sprintf("BUG: the block at %d with %d bytes is free already", b.Off, b.Size))
	}
	if b.Size == 0 {
		s.recycle(b)
		return
	}
	s.used -= b.Size
	b.free, b.Owner = true, nil
	for _, e := range after {
		if !s.over(e) {
			b.uses.Add(e)
		}
	}
	first, last := b, b
	if b.prev.free {
		first = b.prev.run.first
		s.runs.remove(b.prev.run)
	}
	if b.next.free {
		last = b.next.run.last
		s.runs.remove(b.next.run)
	}
	s.runs.add(first, last)
	s.settle(b)
}

// Passed tells that the host has waited for e. Bytes whose uses are all of that
// kind, or in queues that were closed (their method Closed says so), can be written
// without waiting.
func (s *Space) Passed(e device.Event) {
	s.passed = slices.DeleteFunc(s.passed, func(p device.Event) bool { return closed(p.Queue) })
	s.passed.Add(e)
	s.tight = false
}

// over reports whether the host has waited for e, or its queue was closed.
func (s *Space) over(e device.Event) bool { return s.passed.Covers(e) || closed(e.Queue) }

// closed reports whether a queue was closed. The host has then waited for all of
// its events.
func closed(q device.Queue) bool {
	c, ok := q.(interface{ Closed() bool })
	return ok && c.Closed()
}

// Idle reports whether a range is free and all its uses have ended by now. It is
// for guests, who leave as soon as someone takes the range.
func (s *Space) Idle(off, size int64) bool {
	for b := s.edge.prev; b != &s.edge && b.end() > off; b = b.prev {
		if b.Off < off+size && !(b.free && b.uses.Done()) {
			return false
		}
	}
	return off+size <= s.size
}

// settle forgets the uses of a free block that the host has waited for. If there
// are no others, it joins the block with idle neighbours, and returns the joint
// block.
func (s *Space) settle(b *Block) *Block {
	s.forget(b)
	if len(b.uses) > 0 {
		return b
	}
	if n := b.next; n.free && len(n.uses) == 0 {
		s.join(b, n)
	}
	if p := b.prev; p.free && len(p.uses) == 0 {
		s.join(p, b)
		b = p
	}
	return b
}

// forget drops the uses that the host has waited for.
func (s *Space) forget(b *Block) {
	kept := b.uses[:0]
	for _, e := range b.uses {
		if !s.over(e) {
			kept = append(kept, e)
		}
	}
	clear(b.uses[len(kept):])
	b.uses = kept
}

// join makes one block of two neighbours in a run.
func (s *Space) join(a, b *Block) {
	if r := b.run; r != nil { // b is the last one
		r.last, a.run = a, r
	}
	s.absorb(a, b)
}

// absorb adds b to its neighbour a before it.
func (s *Space) absorb(a, b *Block) {
	a.Size += b.Size
	a.next, b.next.prev = b.next, a
	s.recycle(b)
}

// split leaves size bytes to b. The rest is a block after it, with the same uses.
func (s *Space) split(b *Block, size int64) *Block {
	rest := s.newBlock()
	rest.Off, rest.Size, rest.free = b.Off+size, b.Size-size, b.free
	rest.uses = append(rest.uses, b.uses...)
	b.Size = size
	s.insert(rest, b)
	return rest
}

// insert links b in after another block.
func (s *Space) insert(b, after *Block) {
	b.prev, b.next = after, after.next
	after.next.prev, after.next = b, b
}

// newBlock is an empty block that is linked nowhere.
func (s *Space) newBlock() *Block {
	if s.spare == nil {
		for slab := make([]Block, blocksAtOnce); len(slab) > 0; slab = slab[1:] {
			slab[0].uses = slab[0].room[:0]
			s.recycle(&slab[0])
		}
	}
	b := s.spare
	s.spare = b.next
	*b = Block{uses: b.uses[:0]}
	return b
}

// blocksAtOnce is the number of blocks that are allocated together.
const blocksAtOnce = 64

// recycle keeps a block for reuse.
func (s *Space) recycle(b *Block) {
	clear(b.uses)
	*b = Block{uses: b.uses[:0], next: s.spare, free: true}
	s.spare = b
}

// roundUp is the least multiple of to that is at least n.
func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
