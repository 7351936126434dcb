package hostmem

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/residency/copies"
)

// Block is the memory of one tensor's bytes. The tensor's record owns it until Memory.Drop or
// Memory.Free; the exported fields are for that owner.
type Block struct {
	copies.Origin // of the contents; Ready is the end of the copy-out that fills the block

	Version uint64 // of the contents
	From    string // the device that the contents come from
	Private bool   // spilled, or on the way between devices: not for the host before a pull-back
	Kept    bool   // passed on the way to another entry of its sequence, and needed by nobody yet

	buf     device.HostBuffer
	bytes   int64
	uses    device.Fence  // queued copies from and to it
	pins    int           // readers and writers on the host
	lent    bool          // the buffer is the caller's and is not freed here
	staged  bool          // to be dropped once copied in: a store or the device keeps the contents
	counted bool          // among Memory.used
	left    bool          // others may have the memory, which is the file's
	dev     device.Device // that allocated it, if it is kept for copies out
	since   uint64        // the clock when it was last dropped, if it is kept

	// Of bytes that were moved to a device:
	arrived device.Event          // of the copy
	back    func() (*Block, bool) // takes the block back if that has failed, or reports false
}

// Buffer is the memory, for copies of a device.
func (h *Block) Buffer() device.HostBuffer { return h.buf }

// Bytes is the memory, for the host. Pin the block while they are used.
func (h *Block) Bytes() []byte { return h.buf.Bytes() }

// Uses are the queued copies from and to the block.
func (h *Block) Uses() device.Fence { return h.uses }

// AddUse records a queued copy from or to the block.
func (h *Block) AddUse(e device.Event) { h.uses.Add(e) }

// Pin keeps the block until Memory.Unpin, which must be called as often.
func (h *Block) Pin() { h.pins++ }

// Pins counts the readers and writers on the host.
func (h *Block) Pins() int { return h.pins }

// Lent reports whether the memory is the caller's own.
func (h *Block) Lent() bool { return h.lent }

// Staged reports whether the block is on its way to a device, and dropped then.
func (h *Block) Staged() bool { return h.staged }

// InFile reports whether the memory is the file's.
func (h *Block) InFile() bool {
	_, ok := h.buf.(*hostfile.Buffer)
	return ok
}

// busy reports whether a copy, or the host, uses the block.
func (h *Block) busy() bool { return h.pins > 0 || !h.uses.Done() }

// outgoing reports whether the block is kept for copies out.
func (h *Block) outgoing() bool { return h.dev != nil }

// LeastKept is the least number of ticks for which blocks are kept.
const LeastKept = 64

// pool keeps blocks for the next copies out. No tensor has them. They are in the order in
// which they were dropped. A block is given out again at once; the copy to
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
	h.Version = 0
	h.Clear()
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
