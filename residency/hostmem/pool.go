package hostmem

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// LeastKept is the least number of ticks for which blocks are kept.
const LeastKept = 64

// pool is the blocks that are kept for copies out: those that no tensor has, in the
// order in which they were dropped. A block is given out again at once; the copy to
// it then waits for its last uses.
type pool struct {
	idle  []*Block
	kept  uint64 // ticks after which a block is freed
	clock uint64 // the tick
}

// rest keeps a block.
func (p *pool) rest(h *Block) {
	h.since = p.clock
	p.idle = append(p.idle, h)
}

// take finds a block of a device and size: one that nothing uses, or else the one
// that was dropped longest ago; nil if there is none.
func (p *pool) take(dev device.Device, bytes int64) *Block {
	at := -1
	for i, h := range p.idle {
		if h.bytes != bytes || h.dev != dev {
			continue
		}
		if at < 0 {
			at = i
		}
		if h.uses.Done() {
			at = i
			break
		}
	}
	if at < 0 {
		return nil
	}
	h := p.idle[at]
	p.idle = append(p.idle[:at], p.idle[at+1:]...)
	h.Version, h.Ready, h.Causes, h.Carried = 0, device.Event{}, h.Causes[:0], h.Carried[:0]
	return h
}

// expire appends the blocks that nobody has taken for too long. They are kept no
// longer.
func (p *pool) expire(clock uint64, to []*Block) []*Block {
	p.clock = clock
	old := 0
	for old < len(p.idle) && clock-p.idle[old].since > p.kept {
		h := p.idle[old]
		h.dev = nil // no copy takes it any more
		to = append(to, h)
		old++
	}
	if old > 0 {
		p.idle = slices.Delete(p.idle, 0, old)
	}
	return to
}

// trim takes blocks that nothing uses out of the pool, the oldest first, and calls
// free with each, while more reports true.
func (p *pool) trim(more func() bool, free func(*Block)) {
	kept := p.idle[:0]
	for _, h := range p.idle {
		if !more() || !h.uses.Done() {
			kept = append(kept, h)
			continue
		}
		free(h)
	}
	clear(p.idle[len(kept):])
	p.idle = kept
}

// bytes is the size of the pool.
func (p *pool) bytes() (sum int64) {
	for _, h := range p.idle {
		sum += h.bytes
	}
	return sum
}
