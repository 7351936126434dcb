package hostmem

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/internal/units"
)

// ErrFull is the error of memory beyond the bound.
var ErrFull = errors.New("too little host memory")

// Options bounds a Memory.
type Options struct {
	Staging int64          // most bytes on their way to devices, though one block may exceed it
	Bound   int64          // of all memory, in bytes; 0 means none
	File    *hostfile.File // has the bytes beyond the bound; nil means that they are refused
}

// Memory gives out host memory, and frees it when the last copy has ended. A residency manager
// owns one. Create it with New, and Close it after use.
type Memory struct {
	opt     Options      // File becomes nil when it is closed
	used    atomic.Int64 // bytes of blocks in memory, and those held
	peak    int64        // the most that used was
	held    int64        // bytes that callers of Hold have
	forHeld int64        // bytes that are kept for them, with those they have
	filed   atomic.Int64 // bytes of blocks in the file
	filing  int64        // the most that filed was
	warm    []*Block     // in the file, with pages in memory
	dropped []*Block     // to free once copies and readers have ended
	pool    pool
	spare   []*Block // records for reuse
	staged  int64    // bytes of staged blocks, until they are freed
	closing bool     // the file goes with the last block
	freeErr error    // for Close to report
}

// New makes a Memory, to which the options' file belongs.
func New(o Options) *Memory { return &Memory{opt: o, pool: pool{kept: LeastKept}} }

// record makes a record for buf.
func (x *Memory) record(buf device.HostBuffer, bytes int64) *Block {
	var h *Block
	if n := len(x.spare); n > 0 {
		h, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		h = new(Block)
	}
	h.Clear()
	*h = Block{buf: buf, bytes: bytes, uses: h.uses[:0], Origin: h.Origin}
	return h
}

// Lend makes a block of the caller's own memory.
func (x *Memory) Lend(buf device.HostBuffer, bytes int64) *Block {
	h := x.record(buf, bytes)
	h.lent = true
	return h
}

// Alloc gets memory for a named tensor: that which dev copies fastest from and to,
// or, beyond the bound, the file's. Without a file it fails with ErrFull. A copy to the
// block, and a writer on the host, must wait for the block's uses: the file's memory is
// given out again before the copies of its last owner have ended.
func (x *Memory) Alloc(dev device.Device, bytes int64, name string) (*Block, error) {
	if !x.allows(bytes) {
		x.pool.trim(func() bool { return !x.allows(bytes) }, x.Free)
	}
	if !x.allows(bytes) {
		return x.allocInFile(bytes, name)
	}
	b, err := dev.AllocHost(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s of host memory for %s: %w", units.Bytes(bytes), name, err)
	}
	x.use(bytes)
	h := x.record(b, bytes)
	h.counted = true
	return h, nil
}

// File is the file beyond the bound, and the bytes in it that blocks of so many bytes
// take in addition to those held; nil without a file. A block that does not fit next to
// the others is in the file whole. Pieces between blocks take up to a quarter.
func (x *Memory) File(blocks, largest int64) (f *hostfile.File, bytes int64) {
	beyond := x.held + x.yetToHold() + blocks - x.opt.Bound
	if beyond <= 0 {
		return x.opt.File, 0
	}
	beyond = min(beyond+largest, blocks)
	return x.opt.File, beyond + beyond/4
}

// allows reports whether so many bytes more are within the bound.
func (x *Memory) allows(bytes int64) bool {
	return x.opt.Bound <= 0 || x.used.Load()+x.yetToHold()+bytes <= x.opt.Bound
}

// allocInFile gets memory of the file.
func (x *Memory) allocInFile(bytes int64, name string) (*Block, error) {
	if x.opt.File == nil {
		return nil, fmt.Errorf("%w: %s needs %s, but %s of the %s allowed are in use: raise the limit (--host-memory); on this system, tensors cannot go to a file instead", ErrFull, name, units.Bytes(bytes), units.Bytes(x.used.Load()), units.Bytes(x.opt.Bound))
	}
	b, after, err := x.opt.File.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("moving %s of %s to a file, since the %s of host memory are full: %w", units.Bytes(bytes), name, units.Bytes(x.opt.Bound), err)
	}
	x.filing = max(x.filing, x.filed.Add(bytes))
	h := x.record(b, bytes)
	for _, e := range after {
		h.uses.Add(e)
	}
	x.Touch(h)
	return h, nil
}

// AllocOut is Alloc for a copy-out from dev. It prefers the memory of an earlier one of
// the same size.
func (x *Memory) AllocOut(dev device.Device, bytes int64, name string) (*Block, error) {
	if h := x.pool.take(dev, bytes); h != nil {
		return h, nil
	}
	h, err := x.Alloc(dev, bytes, name)
	if err == nil && h.counted {
		h.dev = dev
	}
	return h, err
}

// use counts bytes that are in memory from now on.
func (x *Memory) use(bytes int64) {
	x.peak = max(x.peak, x.used.Add(bytes))
}

// Keep sets for how long blocks are kept for copies out: for two steps of so many
// ticks.
func (x *Memory) Keep(ticks int) { x.pool.kept = max(LeastKept, uint64(2*ticks)) }

// Tick frees what need not be kept any longer. clock counts the ticks.
func (x *Memory) Tick(clock uint64) {
	before := len(x.dropped)
	x.dropped = x.pool.expire(clock, x.dropped)
	if len(x.dropped) > before {
		x.Sweep()
	}
}

// Touch records that h will be used by a copy or by the host.
func (x *Memory) Touch(h *Block) {
	if h.InFile() {
		x.warm = append(x.warm, h)
	}
}

// cool takes the pages of the file that no copy and no reader uses out of memory.
// They come back when they are touched.
func (x *Memory) cool() {
	kept := x.warm[:0]
	for _, h := range x.warm {
		b, inFile := h.buf.(*hostfile.Buffer)
		switch {
		case !inFile: // freed meanwhile
		case h.busy():
			kept = append(kept, h)
		default:
			b.Evict(0, h.bytes)
		}
	}
	clear(x.warm[len(kept):])
	x.warm = kept
}

// Unpin ends a reader's or writer's use of h.
func (x *Memory) Unpin(h *Block) {
	h.pins--
	x.Touch(h)
	x.Sweep()
}

// Drop frees h once queued copies and readers on the host are done with it. A block
// of a copy-out is kept for the next one. Others may take a block of the file at once, to
// use it after those copies: so the file's bytes follow the order of submission.
func (x *Memory) Drop(h *Block) {
	if x.keeps(h) && h.pins == 0 {
		x.pool.rest(h)
		return
	}
	if b, inFile := h.buf.(*hostfile.Buffer); inFile && h.pins == 0 && !h.staged {
		b.Leave(h.uses...)
		x.filed.Add(-h.bytes)
		h.left = true
	}
	x.dropped = append(x.dropped, h)
	x.Sweep()
}

// keeps reports whether a dropped block is kept for copies out.
func (x *Memory) keeps(h *Block) bool { return h.outgoing() && !h.staged && !x.closing }

// Sweep frees the dropped memory that is no longer in use.
func (x *Memory) Sweep() {
	if len(x.dropped)+len(x.warm) == 0 && !x.closing {
		return
	}
	kept := x.dropped[:0]
	for _, h := range x.dropped {
		if h.busy() {
			kept = append(kept, h)
			continue
		}
		other, given := x.giveBack(h)
		switch {
		case other != nil:
			kept = append(kept, other)
		case given:
		case x.keeps(h):
			x.pool.rest(h)
		default:
			x.Free(h)
		}
	}
	clear(x.dropped[len(kept):])
	x.dropped = kept
	x.cool()
	if x.closing && len(kept) == 0 && x.opt.File != nil {
		x.freeErr = errors.Join(x.freeErr, x.opt.File.Close())
		x.opt.File = nil
	}
}

// giveBack returns a moved block whose copy to the device failed to its owner,
// unless that has other contents by now. The owner drops other for it, if that is not nil.
func (x *Memory) giveBack(h *Block) (other *Block, given bool) {
	if h.back == nil || h.arrived.Err() == nil {
		return nil, false
	}
	if other, given = h.back(); given {
		x.staged -= h.bytes
		h.staged, h.back = false, nil
	}
	return other, given
}

// Free frees the memory of h now and keeps h itself as a spare.
func (x *Memory) Free(h *Block) {
	if h.staged {
		x.staged -= h.bytes
	}
	if h.counted {
		x.used.Add(-h.bytes)
	}
	if h.InFile() && !h.left {
		x.filed.Add(-h.bytes)
	}
	if !h.lent {
		if err := h.buf.Free(); err != nil {
			x.freeErr = errors.Join(x.freeErr, fmt.Errorf("free host memory: %w", err))
		}
	}
	h.buf, h.back = nil, nil
	x.spare = append(x.spare, h)
}

// Close frees all host memory after its copies have ended, for which it waits. Memory
// that is still pinned is freed when it is unpinned.
func (x *Memory) Close() error {
	x.dropped = append(x.dropped, x.pool.idle...)
	x.pool.idle = nil
	for _, h := range x.dropped {
		for _, e := range h.uses {
			_ = e.Wait(context.Background()) // who reads the copy asks how it ended
		}
	}
	x.closing = true
	x.Sweep()
	return x.freeErr
}

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
	u := Usage{Bound: x.opt.Bound, Used: x.used.Load(), Peak: x.peak, InFile: x.filing, Idle: x.pool.bytes()}
	if x.opt.File != nil {
		u.Spilled = x.opt.File.Bytes()
	}
	return u
}

// Now is the bytes in memory, with those held, and the bytes of tensors in the file. It takes no lock of the owner.
func (x *Memory) Now() (used, filed int64) { return x.used.Load(), x.filed.Load() }

// Bound is Options.Bound.
func (x *Memory) Bound() int64 { return x.opt.Bound }

// Hold counts memory that the caller has until Release. It fails with ErrFull
// where the bound does not allow it.
func (x *Memory) Hold(bytes int64) error {
	if x.opt.Bound > 0 && x.held+bytes > x.opt.Bound {
		take, most := units.TwoBytes(x.held+bytes, x.opt.Bound)
		return fmt.Errorf("%w: batches and saves need %s, but the limit on host memory is %s: raise the limit (--host-memory), or use smaller batches", ErrFull, take, most)
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
	x.used.Add(-bytes)
}

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
