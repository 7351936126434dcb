package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// hostMem is a tensor's bytes on the host.
type hostMem struct {
	buf      device.HostBuffer
	version  uint64       // of the contents
	ready    device.Event // of the copy-out that fills it
	uses     fence        // queued copies from and to it
	pins     int          // readers on the host
	fed      bool         // the buffer is the caller's and is not freed here
	staged   bool         // to be dropped once copied in: a store or the device keeps the contents
	streamed bool         // read from a sequence and not copied in yet
	bytes    int64
}

// hostMemory allocates host memory for tensors and frees it when the last copy
// has ended. The manager's lock guards it.
type hostMemory struct {
	dropped []*hostMem // to free once copies and readers have ended
	spare   []*hostMem // records for reuse
	staged  int64      // bytes of staged records, until they are freed
	limit   int64      // most bytes in staged, though one record may exceed it
	freeErr error      // for Close to report
}

// record makes a record for buf. With fed, buf is the caller's.
func (x *hostMemory) record(buf device.HostBuffer, bytes int64, fed bool) *hostMem {
	var h *hostMem
	if n := len(x.spare); n > 0 {
		h, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		h = new(hostMem)
	}
	*h = hostMem{buf: buf, bytes: bytes, fed: fed, uses: h.uses[:0]}
	return h
}

// alloc gets memory that dev copies fastest from and to, for a named tensor.
func (x *hostMemory) alloc(dev device.Device, bytes int64, name string) (*hostMem, error) {
	b, err := dev.AllocHost(bytes)
	if err != nil {
		return nil, fmt.Errorf("%d bytes of host memory for %s: %w", bytes, name, err)
	}
	return x.record(b, bytes, false), nil
}

// stage counts h among the bytes on their way to a device.
func (x *hostMemory) stage(h *hostMem) {
	h.staged = true
	x.staged += h.bytes
}

// drop frees h once queued copies and readers on the host are done with it.
func (x *hostMemory) drop(h *hostMem) {
	x.dropped = append(x.dropped, h)
	x.sweep()
}

// sweep frees the dropped memory that is no longer in use.
func (x *hostMemory) sweep() {
	kept := x.dropped[:0]
	for _, h := range x.dropped {
		if h.pins > 0 || !h.uses.done() {
			kept = append(kept, h)
			continue
		}
		x.free(h)
	}
	clear(x.dropped[len(kept):])
	x.dropped = kept
}

// free frees the memory of h now and keeps h itself as a spare.
func (x *hostMemory) free(h *hostMem) {
	if h.staged {
		x.staged -= h.bytes
	}
	if !h.fed {
		if err := h.buf.Free(); err != nil {
			x.freeErr = errors.Join(x.freeErr, fmt.Errorf("free host memory: %w", err))
		}
	}
	h.buf = nil
	x.spare = append(x.spare, h)
}

// blockers lists the copies to wait for before bytes more may be staged. It is
// empty if they may be staged now.
func (x *hostMemory) blockers(bytes int64) (copies fence) {
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
