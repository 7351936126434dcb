package host

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/internal/units"
)

// arena is the memory of a device: one mapping as large as the budget. Pages take
// memory when they are first touched, and keep it. It implements [streams.Memory].
type arena struct {
	mem []byte

	// The pages that may be touched: those below low and those from high on.
	low, high int64
}

// newArena takes address space for a budget.
func newArena(budget int64) (*arena, error) {
	if left := leastAddresses(); budget > left.bytes {
		asked, leaves := units.TwoBytes(budget, left.bytes)
		return nil, fmt.Errorf("%w: it is %s, but %s leaves %s: lower the budget, or raise that limit",
			device.ErrBudget, asked, left.limit, leaves)
	}
	if has, err := machineMemory(); err == nil && budget > has { // the system would promise it, and end the process later
		asked, most := units.TwoBytes(budget, has)
		return nil, fmt.Errorf("%w: it is %s, but the machine has %s: lower the budget; to plan alone for a larger machine, use the device null", device.ErrBudget, asked, most)
	}
	mem, err := reserve(budget)
	if err != nil {
		return nil, fmt.Errorf("%w: the system has no %s of address space for it: %w: lower the budget", device.ErrBudget, units.Bytes(budget), err)
	}
	adviseHuge(mem)
	return &arena{mem: mem, high: budget}, nil
}

// Close unmaps the arena. No range may be touched afterwards.
func (a *arena) Close() error {
	mem := a.mem
	a.mem = nil
	return unmap(mem)
}

// Bytes implements [streams.Addressed].
func (a *arena) Bytes(off, size int64) []byte { return a.mem[off : off+size : off+size] }

// CopyIn implements [streams.Memory].
func (a *arena) CopyIn(off int64, src []byte) error {
	copy(a.mem[off:], src)
	return nil
}

// CopyOut implements [streams.Memory].
func (a *arena) CopyOut(dst []byte, off int64) error {
	copy(dst, a.mem[off:])
	return nil
}

// Move implements [streams.Memory].
func (a *arena) Move(to, from, size int64) error {
	copy(a.Bytes(to, size), a.Bytes(from, size))
	return nil
}

// CopyFrom implements [streams.Memory].
func (a *arena) CopyFrom(to int64, other streams.Memory, from, size int64) error {
	copy(a.Bytes(to, size), other.(*arena).Bytes(from, size))
	return nil
}

// Back makes a range usable, and reports whether the system had the pages. The
// pages between it and those that are usable become usable too: blocks come
// from the low end, packed copies from the high end.
func (a *arena) Back(off, size int64) bool {
	end := off + size
	switch {
	case end <= a.low || off >= a.high:
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
