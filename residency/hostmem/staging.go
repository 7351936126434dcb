package hostmem

import "github.com/berth-ml/berth/engine/device"

// StagingLimit is Options.Staging.
func (x *Memory) StagingLimit() int64 { return x.opt.Staging }

// Stage counts h among the bytes on their way to a device.
func (x *Memory) Stage(h *Block) {
	h.staged = true
	x.staged += h.bytes
}

// Move is Stage for a block whose contents are a device's once arrived has happened.
// The owner drops it. If the copy fails, back is called: it reports whether it took
// the block back, and gives the block to drop in its place, or nil.
func (x *Memory) Move(h *Block, arrived device.Event, back func() (*Block, bool)) {
	h.arrived, h.back = arrived, back
	x.Stage(h)
}

// Blockers lists the copies to wait for before bytes more may be staged. It is
// empty if they may be staged now.
func (x *Memory) Blockers(bytes int64) (copies device.Fence) {
	x.Sweep()
	if x.staged+bytes <= x.opt.Staging {
		return nil
	}
	for _, h := range x.dropped {
		if h.staged && h.pins == 0 {
			return append(copies, h.uses...)
		}
	}
	return nil
}

// CanKeep reports whether there is room to stage bytes that nobody waits for: in
// half of what may be staged, and within the bound.
func (x *Memory) CanKeep(bytes int64) bool {
	x.Sweep()
	return x.staged+bytes <= x.opt.Staging/2 && x.allows(bytes)
}
