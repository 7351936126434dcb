package cl

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/internal/units"
)

// memory is a device's memory: one object of its driver. It implements
// [streams.Memory].
type memory struct {
	*context
	object uintptr
	bytes  int64 // of the object
}

const readWrite = 1 // CL_MEM_READ_WRITE

// reserve takes the memory of a device, with the caller's use of the context.
func reserve(c *context, bytes int64) (*memory, error) {
	to := c.caller()
	object, err := to.create(createBuffer, c.handle, readWrite, uintptr(bytes), 0)
	if err != nil {
		return nil, fmt.Errorf("%w: taking %s: %w: lower the budget", device.ErrBudget, units.Bytes(bytes), err)
	}
	return &memory{c, object, bytes}, nil
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
	const wait = 1
	return l.call(f, l.queue, m.object, wait, uintptr(off), uintptr(len(host)), at(l.caller, &host[0]), 0, 0, 0)
}

// Move implements [streams.Memory].
func (m *memory) Move(to, from, size int64) error {
	if apart := max(to-from, from-to); apart < size {
		return m.shift(to, from, size)
	}
	return m.copyObject(to, m, from, size)
}

// shift moves a range to one that overlaps it, piece by piece by way of the host, in
// the order in which no piece overwrites one to come.
func (m *memory) shift(to, from, size int64) error {
	l, err := m.lane()
	if err != nil {
		return err
	}
	defer m.giveBack(l)
	piece := l.piece()
	for done := int64(0); done < size; {
		n := min(size-done, pieceBytes)
		at := done
		if to > from {
			at = size - done - n
		}
		if err := m.CopyOut(piece[:n], from+at); err != nil {
			return err
		}
		if err := m.CopyIn(to+at, piece[:n]); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// copyObject copies from a memory of the same context. The ranges do not overlap.
func (m *memory) copyObject(to int64, other *memory, from, size int64) error {
	l, err := m.lane()
	if err != nil {
		return err
	}
	defer m.giveBack(l)
	if err := l.call(enqueueCopyBuffer, l.queue, other.object, m.object, uintptr(from), uintptr(to), uintptr(size), 0, 0, 0); err != nil {
		return err
	}
	return l.call(finish, l.queue)
}

// CopyFrom implements [streams.Memory]: by way of the host, unless the two devices
// share a context.
func (m *memory) CopyFrom(to int64, of streams.Memory, from, size int64) error {
	other := of.(*memory)
	if other.context == m.context {
		return m.copyObject(to, other, from, size)
	}
	l, err := m.lane()
	if err != nil {
		return err
	}
	defer m.giveBack(l)
	piece := l.piece()
	for at := int64(0); at < size; at += pieceBytes {
		n := min(size-at, pieceBytes)
		if err := other.CopyOut(piece[:n], from+at); err != nil {
			return err
		}
		if err := m.CopyIn(to+at, piece[:n]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements [streams.Memory].
func (m *memory) Close() error {
	return errors.Join(m.caller().call(releaseMemObject, m.object), m.close())
}
