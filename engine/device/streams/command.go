package streams

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

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

// command is one queued operation. Its queue owns it. op tells which fields count. The buffers
// in it are pinned until release.
type command struct {
	op       opcode
	seq      uint64 // its number in the queue; a launch has those of its marks before it
	dst, src *buffer
	host     device.HostBuffer
	launch   *Launch
	event    device.Event
	slow     time.Duration // by which it takes longer
}

// exclusive is the lock to hold while the command runs; nil if it needs none.
func (c *command) exclusive() sync.Locker {
	if c.op == opLaunch {
		return &c.launch.x.owner.turn
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
		defer c.dst.wrote()
		return c.copyBuffer()
	case opLaunch:
		return c.launch.run()
	}
	return fmt.Errorf("BUG: command with opcode %d", c.op)
}

// copyHost copies between host memory and b. The owner of a host buffer of
// another package may have freed it too early.
func (c *command) copyHost(b *buffer, out bool) error {
	h := hostBytes(c.host)
	if int64(len(h)) != b.meta.Bytes() {
		return fmt.Errorf("%s: copy of %v: the host buffer was freed before the copy ran", b.heap.id, b.meta)
	}
	m := b.heap.memory
	if m == nil {
		return nil
	}
	return c.failure(b, inPieces(h, c.host, func(off int64, piece []byte) error {
		if out {
			return m.CopyOut(piece, b.off+off)
		}
		return m.CopyIn(b.off+off, piece)
	}))
}

// failure is the failure of a copy's memory, of b's device; nil if there is none.
func (c *command) failure(b *buffer, err error) error {
	if err == nil {
		return nil
	}
	return &device.OpError{Device: b.heap.id, What: c.what(), Err: err}
}

// copyBuffer copies between two buffers of the kind.
func (c *command) copyBuffer() error {
	m, bytes := c.dst.heap.memory, c.dst.meta.Bytes()
	switch {
	case m == nil || bytes == 0:
		return nil
	case c.dst.heap == c.src.heap:
		return c.failure(c.dst, m.Move(c.dst.off, c.src.off, bytes))
	}
	return c.failure(c.dst, m.CopyFrom(c.dst.off, c.src.heap.memory, c.src.off, bytes))
}

// pagedPiece is the size in bytes of the pieces in which a paged buffer is copied.
const pagedPiece = 4 << 20

// inPieces gives host memory to f: whole, or in pieces that are evicted after f if
// it is a paged buffer.
func inPieces(bytes []byte, host device.HostBuffer, f func(off int64, piece []byte) error) error {
	paged, ok := host.(device.PagedBuffer)
	if !ok {
		return f(0, bytes)
	}
	for off := 0; off < len(bytes); off += pagedPiece {
		piece := bytes[off:min(len(bytes), off+pagedPiece)]
		if err := f(int64(off), piece); err != nil {
			return err
		}
		paged.Evict(int64(off), int64(len(piece)))
	}
	return nil
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
	return c.launch.x.graph.Name
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

// backlog is the commands of a queue that have not ended. The queue owns it. It grows as it must, so
// that queueing never waits; its memory is kept for later. The queue's lock guards
// it. A command itself is used without the lock: by the goroutine that runs it.
type backlog struct {
	head, tail *piece // of the next command to run, and of the last one queued
	spare      *piece // for reuse, linked by next
}

// piece is consecutive commands: number n is at index n%pieceSize.
type piece struct {
	commands [pieceSize]command
	next     *piece
}

const pieceSize = 128

// add adds the command with the next number, from 1 on.
func (b *backlog) add(seq uint64, c command) {
	// With its first number, a piece is taken from the spare ones, or made, and put at the end.
	if seq%pieceSize == 0 || b.tail == nil {
		p := b.spare
		if p == nil {
			p = new(piece)
		} else {
			b.spare, p.next = p.next, nil
		}
		if b.tail == nil {
			b.head = p
		} else {
			b.tail.next = p
		}
		b.tail = p
	}
	b.tail.commands[seq%pieceSize] = c
}

// next is the command with the next number, from 1 on. The ones before it have
// ended.
func (b *backlog) next(seq uint64) *command {
	// With the first number of the next piece, the head has ended, and is spare.
	if seq%pieceSize == 0 {
		p := b.head
		b.head = p.next
		b.spare, p.next = p, b.spare
	}
	return &b.head.commands[seq%pieceSize]
}

// failures are the copies of a queue that have failed or were skipped, and can be
// repeated. Their buffers stay pinned. The queue's lock guards them.
type failures []failure

// failure is a copy that failed, under its number.
type failure struct {
	seq  uint64
	copy command
}

// repeatable reports whether a command that fails can be repeated.
func (c *command) repeatable() bool {
	return c.op == opCopyIn || c.op == opCopyOut || c.op == opCopyPeer
}

// take is a command that failed. It is kept no longer.
func (f *failures) take(seq uint64) (command, bool) {
	i := slices.IndexFunc(*f, func(x failure) bool { return x.seq == seq })
	if i < 0 {
		return command{}, false
	}
	c := (*f)[i].copy
	*f = slices.Delete(*f, i, i+1)
	return c, true
}

// release releases commands that nobody can repeat any more.
func (f failures) release() {
	for i := range f {
		f[i].copy.release()
	}
}
