package host

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/memory"
	"github.com/berth-ml/berth/internal/units"
)

// alignment of every block, in bytes: a cache line, and the widest vector.
const alignment = device.MemoryUnit

// arena is the memory of a device: one mapping as large as the budget, and the
// space that shares it out. Pages take memory when they are first touched, and
// keep it. It is not safe for concurrent use.
type arena struct {
	*memory.Space
	mem  []byte // nil if memory is only counted
	size int64  // bytes

	// The pages that may be touched: those below low and those from high on.
	low, high int64
}

// newArena reserves address space for a budget, or none if memory is only
// counted.
func newArena(budget int64, mapped bool) (*arena, error) {
	size := budget / alignment * alignment
	a := &arena{Space: memory.New(size, alignment), size: size, high: size}
	if !mapped {
		return a, nil
	}
	if left := leastAddresses(); budget > left.bytes {
		asked, leaves := units.TwoBytes(budget, left.bytes)
		return nil, fmt.Errorf("%w: it is %s, but %s leaves %s: lower the budget, or raise that limit",
			device.ErrBudget, asked, left.limit, leaves)
	}
	mem, err := reserve(size)
	if err != nil {
		return nil, fmt.Errorf("reserving %s of address space for the memory budget: %w", units.Bytes(size), err)
	}
	adviseHuge(mem)
	a.mem = mem
	return a, nil
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

// bytes is a range of the memory; nil if memory is only counted.
func (a *arena) bytes(off, size int64) []byte {
	if a.mem == nil {
		return nil
	}
	return a.mem[off : off+size : off+size]
}

// back makes a range usable, and reports whether the system had the pages. The
// pages between it and those that are usable become usable too: blocks come
// from the low end, packed copies from the high end.
func (a *arena) back(off, size int64) bool {
	end := off + size
	switch {
	case a.mem == nil || end <= a.low || off >= a.high:
		return true
	case off-a.low <= a.high-end:
		if !backPages(a.mem, a.low, end-a.low) {
			return false
		}
		a.low = end
	default:
		if !backPages(a.mem, off, a.high-off) {
			return false
		}
		a.high = off
	}
	return true
}
