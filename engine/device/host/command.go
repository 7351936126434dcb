package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
)

// opcode is the kind of a command.
type opcode uint8

const (
	opNone opcode = iota
	opCopyIn
	opCopyOut
	opCopyPeer
	opMove // within the device's memory; the two may overlap
	opLaunch
	opWait // for an event; its failure is the queue's
	opEnd  // for an event, whether it ends well or not
)

// command is one queued operation. op tells which fields count. The buffers in
// it are pinned until release.
type command struct {
	op       opcode
	dst, src *buffer
	host     device.HostBuffer
	launch   *launch
	event    device.Event
}

// exclusive is the lock to hold while the command runs; nil if it needs none.
func (c *command) exclusive() sync.Locker {
	if c.op == opLaunch {
		return c.launch.turn
	}
	return nil
}

// run does the work of a command that is no wait.
func (c *command) run() error {
	switch c.op {
	case opCopyIn:
		defer c.dst.wrote()
		return c.copyHost(c.dst, false)
	case opCopyOut:
		return c.copyHost(c.src, true)
	case opCopyPeer, opMove:
		if err := c.src.heap.givenUp(); err != nil { // a launch may have ended half-way
			return err
		}
		copy(c.dst.data, c.src.data)
		c.dst.wrote()
	case opLaunch:
		return c.launch.run()
	default:
		return fmt.Errorf("BUG: command with opcode %d", c.op)
	}
	return nil
}

// copyHost copies between host memory and b. The owner of a host buffer that is
// not of this package can have freed it too early.
func (c *command) copyHost(b *buffer, out bool) error {
	h := hostBytes(c.host)
	switch {
	case int64(len(h)) != b.meta.Bytes():
		return fmt.Errorf("%s: copy of %v: the host buffer was freed before the copy ran", b.heap.id, b.meta)
	case out:
		copyPaged(h, b.data, c.host)
	default:
		copyPaged(b.data, h, c.host)
	}
	return nil
}

// pagedPiece is the size in bytes of the pieces in which a paged buffer is copied.
const pagedPiece = 4 << 20

// copyPaged copies src to dst, and evicts what it has copied if the host's side is
// a paged buffer. Where memory is only counted, there is nothing to copy.
func copyPaged(dst, src []byte, host device.HostBuffer) {
	paged, ok := host.(device.PagedBuffer)
	if !ok {
		copy(dst, src)
		return
	}
	for off := 0; off < min(len(dst), len(src)); off += pagedPiece {
		n := copy(dst[off:min(len(dst), off+pagedPiece)], src[off:])
		paged.Evict(int64(off), int64(n))
	}
}

// skip waits for what the command would have waited for, after a failure of its
// queue: whoever waits for the command then knows that those have ended too.
func (c *command) skip(ctx context.Context) {
	switch c.op {
	case opWait, opEnd:
		awaitEnd(ctx, c.event)
	case opLaunch:
		c.launch.awaitDelays()
	}
}

// what is the name of the command, as in device.Span.
func (c *command) what() string {
	switch c.op {
	case opCopyIn:
		return "copy-in"
	case opCopyOut:
		return "copy-out"
	case opCopyPeer:
		return "peer"
	case opMove:
		return "move"
	}
	return c.launch.graph.Name
}

// release unpins the buffers of the command.
func (c *command) release() {
	if c.dst != nil {
		c.dst.unpin()
	}
	if c.src != nil {
		c.src.unpin()
	}
	unpinHost(c.host)
	if c.launch != nil {
		c.launch.release()
	}
}
