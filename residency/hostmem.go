package residency

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/internal/units"
)

// hostMem is a tensor's bytes on the host.
type hostMem struct {
	buf     device.HostBuffer
	version uint64        // of the contents
	ready   device.Event  // of the copy-out that fills it
	causes  device.Fence  // the events by which its source was made; they end before it
	from    string        // the device that it comes from
	uses    device.Fence  // queued copies from and to it
	pins    int           // readers and writers on the host
	fed     bool          // the buffer is the caller's and is not freed here
	staged  bool          // to be dropped once copied in: a store or the device keeps the contents
	kept    bool          // passed on the way to another entry of its sequence, and needed by nobody yet
	counted bool          // among hostMemory.used
	private bool          // spilled, or on the way between devices: not for the host before a pull-back
	dev     device.Device // that allocated it, if it is kept for spills
	bytes   int64
	since   uint64 // the clock when it was last dropped, if it is kept

	// Of bytes that were moved to a device: the tensor gets them back if their
	// copy fails.
	of      *Tensor
	on      int          // index of the device
	arrived device.Event // of the copy
}

// hostMemory allocates host memory for tensors and frees it when the last copy
// has ended: within a bound, and beyond it in a file. The manager's lock guards
// it.
type hostMemory struct {
	most    int64          // bound of used in bytes; 0: none
	used    int64          // bytes of buffers in memory, and those held
	peak    int64          // the most that used was
	held    int64          // bytes that callers of HoldHost have
	file    *hostfile.File // nil without a bound
	filed   int64          // bytes of buffers in the file
	filing  int64          // the most that filed was
	warm    []*hostMem     // in the file, with pages in memory
	dropped []*hostMem     // to free once copies and readers have ended
	idle    []*hostMem     // memory for spills that no tensor has, in the order in which it was dropped
	kept    uint64         // calls of Acquire after which such memory is freed
	clock   uint64         // counts these calls
	spare   []*hostMem     // records for reuse
	staged  int64          // bytes of staged records, until they are freed
	limit   int64          // most bytes in staged, though one record may exceed it
	closing bool           // the file goes with the last record
	freeErr error          // for Close to report
}

// record makes a record for buf. With fed, buf is the caller's.
func (x *hostMemory) record(buf device.HostBuffer, bytes int64, fed bool) *hostMem {
	var h *hostMem
	if n := len(x.spare); n > 0 {
		h, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		h = new(hostMem)
	}
	*h = hostMem{buf: buf, bytes: bytes, fed: fed, uses: h.uses[:0], causes: h.causes[:0]}
	return h
}

// alloc gets memory for a named tensor: that which dev copies fastest from and to,
// or, beyond the bound, the file's.
func (x *hostMemory) alloc(dev device.Device, bytes int64, name string) (*hostMem, error) {
	if x.most > 0 && x.used+bytes > x.most {
		x.trim(bytes)
	}
	if x.most > 0 && x.used+bytes > x.most {
		return x.allocInFile(bytes, name)
	}
	b, err := dev.AllocHost(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s of host memory for %s: %w", units.Bytes(bytes), name, err)
	}
	x.use(bytes)
	h := x.record(b, bytes, false)
	h.counted = true
	return h, nil
}

// allocInFile gets memory of the file.
func (x *hostMemory) allocInFile(bytes int64, name string) (*hostMem, error) {
	if x.file == nil {
		return nil, fmt.Errorf("%w: %s needs %s, and %s of %s are used: allow more (--host-memory); this system has no spill files", ErrHostMemory, name, units.Bytes(bytes), units.Bytes(x.used), units.Bytes(x.most))
	}
	b, err := x.file.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s of host memory for %s, beyond %s: %w", units.Bytes(bytes), name, units.Bytes(x.most), err)
	}
	x.filed += bytes
	x.filing = max(x.filing, x.filed)
	h := x.record(b, bytes, false)
	x.touch(h)
	return h, nil
}

// use counts bytes that are in memory from now on.
func (x *hostMemory) use(bytes int64) {
	x.used += bytes
	x.peak = max(x.peak, x.used)
}

// touch notes that h will be used by a copy or by the host.
func (x *hostMemory) touch(h *hostMem) {
	if h.inFile() {
		x.warm = append(x.warm, h)
	}
}

// inFile reports whether the memory is the file's.
func (h *hostMem) inFile() bool {
	_, ok := h.buf.(*hostfile.Buffer)
	return ok
}

// cool takes the pages of the file that no copy and no reader uses out of memory.
// They come back when they are touched.
func (x *hostMemory) cool() {
	kept := x.warm[:0]
	for _, h := range x.warm {
		b, inFile := h.buf.(*hostfile.Buffer)
		switch {
		case !inFile: // freed meanwhile
		case h.pins > 0 || !h.uses.Done():
			kept = append(kept, h)
		default:
			b.Evict(0, h.bytes)
		}
	}
	clear(x.warm[len(kept):])
	x.warm = kept
}

// await blocks until the bytes are there. Its error is the reason for which they are
// not right, or ctx's. The caller pins h.
func (h *hostMem) await(ctx context.Context) error {
	if err := h.ready.Wait(ctx); err != nil && !h.ready.Done() {
		return err
	}
	return firstFailure(h.ready, h.causes)
}

// unpin ends a reader's or writer's use of h.
func (x *hostMemory) unpin(h *hostMem) {
	h.pins--
	x.touch(h)
	x.sweep()
}

// stage counts h among the bytes on their way to a device.
func (x *hostMemory) stage(h *hostMem) {
	h.staged = true
	x.staged += h.bytes
}

// drop frees h once queued copies and readers on the host are done with it.
func (x *hostMemory) drop(h *hostMem) {
	if h.spills() && h.pins == 0 && !h.staged && !x.closing {
		x.rest(h)
		return
	}
	x.dropped = append(x.dropped, h)
	x.sweep()
}

// sweep frees the dropped memory that is no longer in use.
func (x *hostMemory) sweep() {
	kept := x.dropped[:0]
	for _, h := range x.dropped {
		if h.pins > 0 || !h.uses.Done() {
			kept = append(kept, h)
			continue
		}
		if x.giveBack(h) {
			continue
		}
		if h.spills() && !h.staged && !x.closing {
			x.rest(h)
			continue
		}
		x.free(h)
	}
	clear(x.dropped[len(kept):])
	x.dropped = kept
	x.cool()
	if x.closing && len(kept) == 0 && x.file != nil {
		x.freeErr = errors.Join(x.freeErr, x.file.Close())
		x.file = nil
	}
}

// giveBack makes h the truth of its tensor again if the copy to a device failed,
// unless the tensor has other contents by now.
func (x *hostMemory) giveBack(h *hostMem) bool {
	t := h.of
	if t == nil || t.version != h.version || t.truth != h.on || t.host != nil || h.arrived.Err() == nil {
		return false
	}
	x.staged -= h.bytes
	h.staged, h.of = false, nil
	t.host, t.truth = h, onHost
	return true
}

// free frees the memory of h now and keeps h itself as a spare.
func (x *hostMemory) free(h *hostMem) {
	if h.staged {
		x.staged -= h.bytes
	}
	if h.counted {
		x.used -= h.bytes
	}
	if h.inFile() {
		x.filed -= h.bytes
	}
	if !h.fed {
		if err := h.buf.Free(); err != nil {
			x.freeErr = errors.Join(x.freeErr, fmt.Errorf("free host memory: %w", err))
		}
	}
	h.buf, h.of = nil, nil
	x.spare = append(x.spare, h)
}

// blockers lists the copies to wait for before bytes more may be staged. It is
// empty if they may be staged now.
func (x *hostMemory) blockers(bytes int64) (copies device.Fence) {
	x.sweep()
	if x.staged+bytes <= x.limit {
		return nil
	}
	for _, h := range x.dropped {
		if h.staged && h.pins == 0 {
			return append(copies, h.uses...)
		}
	}
	return nil
}

// close frees all host memory after its copies have ended. Memory that View
// still lends out is freed when View returns.
func (x *hostMemory) close() error {
	x.dropped = append(x.dropped, x.idle...)
	x.idle = nil
	for _, h := range x.dropped {
		for _, e := range h.uses {
			if err := ended(context.Background(), e); err != nil {
				x.freeErr = errors.Join(x.freeErr, err)
			}
		}
	}
	x.closing = true
	x.sweep()
	return x.freeErr
}
