package residency

import "github.com/berth-ml/berth/engine/device"

// compaction moves a device's copies together. It implements device.Mover, and is
// reused.
type compaction struct {
	owner map[device.Buffer]*devCopy // of the buffers that may move
	task  device.Stream
	lease *Lease // of the task
	err   error
}

// compact moves copies together on a device until a buffer of so many bytes has
// room, if its free memory is enough in all. Leased copies stay where they are. The
// ones that an attempt has got for a task move, and so does the scratch in its
// lease, for which the task's stream waits.
func (d *devState) compact(bytes int64, task device.Stream, l *Lease) (bool, error) {
	s, ok := d.move.(device.Compactor)
	if !ok {
		return false, nil
	}
	x := &d.compaction
	if x.owner == nil {
		x.owner = map[device.Buffer]*devCopy{}
	}
	clear(x.owner)
	for _, t := range d.residents {
		if c := d.copy(t); c.leased == 0 {
			x.owner[c.buf] = c
		}
	}
	x.task, x.lease, x.err = task, l, nil
	ok, err := s.Compact(bytes, x)
	if err == nil {
		err = x.err
	}
	x.task, x.lease = nil, nil
	return ok, err
}

// Movable is true for copies that are not leased.
func (x *compaction) Movable(b device.Buffer) bool { return x.owner[b] != nil || b == x.lease.Scratch }

// Uses are those of a copy; scratch has none yet.
func (x *compaction) Uses(b device.Buffer) []device.Event {
	if c := x.owner[b]; c != nil {
		return c.lastUses()
	}
	return nil
}

// Moved notes a copy's new buffer.
func (x *compaction) Moved(from, to device.Buffer, done device.Event) {
	if c := x.owner[from]; c != nil {
		c.buf, c.moved, c.readers = to, done, c.readers[:0]
		return
	}
	x.lease.Scratch = to
	if err := x.task.WaitFor(done); err != nil {
		x.err = err
	}
}
