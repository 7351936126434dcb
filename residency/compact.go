package residency

import "github.com/berth-ml/berth/engine/device"

// compact moves copies together on a device until a buffer of so many bytes has
// room, if its free memory is enough in all. Leased copies stay where they are. The
// ones that an attempt has got for a task move, and so does the scratch in its
// lease, for which the task's stream waits.
func (m *Manager) compact(d *devState, bytes int64, task device.Stream, l *Lease) (bool, error) {
	s, ok := d.move.(device.Compactor)
	if !ok {
		return false, nil
	}
	if d.owner == nil {
		d.owner = map[device.Buffer]*devCopy{}
	}
	clear(d.owner)
	for _, t := range d.residents {
		if c := d.copy(t); c.leased == 0 {
			d.owner[c.buf] = c
		}
	}
	var failed error
	ok, err := s.Compact(bytes,
		func(b device.Buffer) bool { return d.owner[b] != nil || b == l.Scratch },
		func(b device.Buffer) device.Move {
			c := d.owner[b]
			if c == nil {
				return device.Move{Done: func(to device.Buffer, done device.Event) {
					l.Scratch = to
					failed = task.WaitFor(done)
				}}
			}
			return device.Move{Uses: c.lastUses(), Done: func(to device.Buffer, done device.Event) {
				c.buf, c.moved, c.readers = to, done, c.readers[:0]
			}}
		})
	if err == nil {
		err = failed
	}
	return ok, err
}
