package cl

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/internal/units"
)

// memory is a device's memory: one object of its driver. It implements
// [streams.Memory].
type memory struct {
	*context
	object uintptr
}

// context is a device that is open.
type context struct {
	of     found
	handle uintptr
	mu     sync.Mutex
	idle   []*lane // for reuse
	all    []*lane
}

// lane is a command queue of the driver, and what calls need. One goroutine at a
// time uses it.
type lane struct {
	*caller
	queue uintptr
}

// openContext opens a device.
func openContext(d found) (*context, error) {
	c, err := newCaller()
	if err != nil {
		return nil, err
	}
	defer keepSignals()()
	id := &d.handle
	handle, err := c.create(createContext, 0, 1, address(id), 0, 0)
	if err != nil {
		return nil, err
	}
	return &context{of: d, handle: handle}, nil
}

// lane is a lane that nobody uses. Give it back.
func (c *context) lane() (*lane, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		l := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return l, nil
	}
	to, err := newCaller()
	if err != nil {
		return nil, err
	}
	queue, err := to.create(createCommandQueue, c.handle, c.of.handle, 0)
	if err != nil {
		return nil, err
	}
	l := &lane{to, queue}
	c.all = append(c.all, l)
	return l, nil
}

func (c *context) giveBack(l *lane) {
	c.mu.Lock()
	c.idle = append(c.idle, l)
	c.mu.Unlock()
}

// close ends the device, whose lanes nobody uses.
func (c *context) close() error {
	var errs []error
	for _, l := range c.all {
		errs = append(errs, l.call(releaseCommandQueue, l.queue))
	}
	to, err := newCaller()
	if err == nil {
		err = to.call(releaseContext, c.handle)
	}
	return errors.Join(append(errs, err)...)
}

const readWrite = 1 // CL_MEM_READ_WRITE

// reserve takes the memory of a device.
func (c *context) reserve(bytes int64) (streams.Memory, error) {
	if bytes > c.of.object {
		return nil, fmt.Errorf("%w: it is %s, but the driver's largest object has %s: lower the budget", device.ErrBudget, units.Bytes(bytes), units.Bytes(c.of.object))
	}
	to, err := newCaller()
	if err != nil {
		return nil, err
	}
	object, err := to.create(createBuffer, c.handle, readWrite, uintptr(bytes), 0)
	if err != nil {
		return nil, err
	}
	return &memory{c, object}, nil
}

// Back implements [streams.Memory]: the driver has taken all of it.
func (m *memory) Back(int64, int64) bool { return true }

// CopyIn implements [streams.Memory].
func (m *memory) CopyIn(off int64, src []byte) error {
	return m.transfer(enqueueWriteBuffer, off, src)
}

// CopyOut implements [streams.Memory].
func (m *memory) CopyOut(dst []byte, off int64) error {
	return m.transfer(enqueueReadBuffer, off, dst)
}

// transfer copies between host and device, and returns once it has ended.
func (m *memory) transfer(f function, off int64, host []byte) error {
	if len(host) == 0 {
		return nil
	}
	l, err := m.lane()
	if err != nil {
		return err
	}
	defer m.giveBack(l)
	err = l.call(f, l.queue, m.object, 1, uintptr(off), uintptr(len(host)), address(&host[0]), 0, 0, 0)
	runtime.KeepAlive(host)
	return err
}

// leastPiece is the smallest piece, in bytes, in which overlapping ranges are copied
// on the device. Nearer ones go by way of the host.
const leastPiece = 64 << 10

// Move implements [streams.Memory].
func (m *memory) Move(to, from, size int64) error {
	apart := max(to-from, from-to)
	if apart >= size {
		return m.copyWithin(to, from, size, size)
	}
	if to < from && apart >= leastPiece {
		return m.copyWithin(to, from, size, apart)
	}
	b := make([]byte, size)
	if err := m.CopyOut(b, from); err != nil {
		return err
	}
	return m.CopyIn(to, b)
}

// copyWithin copies in pieces, from the first on.
func (m *memory) copyWithin(to, from, size, piece int64) error {
	l, err := m.lane()
	if err != nil {
		return err
	}
	defer m.giveBack(l)
	for at := int64(0); at < size; at += piece {
		n := min(piece, size-at)
		if err := l.call(enqueueCopyBuffer, l.queue, m.object, m.object, uintptr(from+at), uintptr(to+at), uintptr(n), 0, 0, 0); err != nil {
			return err
		}
	}
	return l.call(finish, l.queue)
}

// CopyFrom implements [streams.Memory]: by way of the host.
func (m *memory) CopyFrom(to int64, other streams.Memory, from, size int64) error {
	if same := other.(*memory); same.object == m.object {
		return m.Move(to, from, size)
	}
	b := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; at += int64(len(b)) {
		piece := b[:min(int64(len(b)), size-at)]
		if err := other.CopyOut(piece, from+at); err != nil {
			return err
		}
		if err := m.CopyIn(to+at, piece); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [streams.Memory].
func (m *memory) Close() error {
	to, err := newCaller()
	if err != nil {
		return err
	}
	return errors.Join(to.call(releaseMemObject, m.object), m.close())
}
