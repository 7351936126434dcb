package residency

import (
	"cmp"

	"github.com/berth-ml/berth/engine/device"
)

// compaction moves the copies on a device together. It implements device.Mover, and
// is reused.
type compaction struct {
	d     *devState
	owner map[device.Buffer]*devCopy // of the buffers that may move; made when it is first asked for
	task  device.Stream
	lease *Lease // of the task
	err   error
}

// compact moves copies together on a device until a buffer of so many bytes has
// room, if its free memory is enough in all. Leased copies stay where they are. The
// ones that an attempt has got for a task move, and so does the scratch in its
// lease, for which the task's stream waits.
func (x *compaction) compact(d *devState, bytes int64, task device.Stream, l *Lease) error {
	s, ok := d.move.(device.Compactor)
	if !ok {
		return nil
	}
	clear(x.owner)
	x.d, x.task, x.lease, x.err = d, task, l, nil
	_, err := s.Compact(bytes, x)
	x.task, x.lease = nil, nil
	return cmp.Or(err, x.err)
}

// copyOf is the copy that has a buffer; nil if a lease contains it.
func (x *compaction) copyOf(b device.Buffer) *devCopy {
	if x.owner == nil {
		x.owner = map[device.Buffer]*devCopy{}
	}
	if len(x.owner) == 0 {
		for _, t := range x.d.residents {
			if c := x.d.copy(t); c.leased == 0 {
				x.owner[c.buf] = c
			}
		}
	}
	return x.owner[b]
}

// Movable is true for copies that are not leased.
func (x *compaction) Movable(b device.Buffer) bool { return x.copyOf(b) != nil || b == x.lease.Scratch }

// Uses are those of a copy; scratch has none yet.
func (x *compaction) Uses(b device.Buffer) []device.Event {
	if c := x.copyOf(b); c != nil {
		return c.lastUses()
	}
	return nil
}

// Moved notes a copy's new buffer.
func (x *compaction) Moved(from, to device.Buffer, done device.Event) {
	if c := x.copyOf(from); c != nil {
		c.buf, c.moved, c.readers = to, done, c.readers[:0]
		return
	}
	x.lease.Scratch = to
	if err := x.task.WaitFor(done); err != nil {
		x.err = err
	}
}
