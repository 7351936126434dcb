package hostmem

import (
	"fmt"

	"github.com/berth-ml/berth/internal/units"
)

// Usage is the host memory of tensors, in bytes.
type Usage struct {
	Bound   int64 // Options.Bound
	Used    int64 // in memory, with the bytes held
	Peak    int64 // the most that Used was
	Idle    int64 // among Used, kept for the next spills
	Spilled int64 // size of the file
	InFile  int64 // the most bytes of tensors that were in the file at once
}

// Usage measures the memory.
func (x *Memory) Usage() Usage {
	u := Usage{Bound: x.opt.Bound, Used: x.used, Peak: x.peak, InFile: x.filing, Idle: x.pool.bytes()}
	if x.opt.File != nil {
		u.Spilled = x.opt.File.Bytes()
	}
	return u
}

// Hold counts memory that the caller has until Release. It fails with ErrFull
// where the bound does not allow it.
func (x *Memory) Hold(bytes int64) error {
	if x.opt.Bound > 0 && x.held+bytes > x.opt.Bound {
		take, most := units.TwoBytes(x.held+bytes, x.opt.Bound)
		return fmt.Errorf("%w: batches and saves take %s, and %s are allowed: allow more (--host-memory), or use smaller batches", ErrFull, take, most)
	}
	x.held += bytes
	x.use(bytes)
	return nil
}

// KeepFree keeps so many bytes of memory for what is held. Blocks get the rest.
func (x *Memory) KeepFree(bytes int64) { x.forHeld = bytes }

// yetToHold is the bytes that are kept for Hold.
func (x *Memory) yetToHold() int64 { return max(0, x.forHeld-x.held) }

// Release undoes Hold.
func (x *Memory) Release(bytes int64) {
	x.held -= bytes
	x.used -= bytes
}
