package residency

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// follow makes the stream wait for the contents that the task reads, and for all
// uses of the buffers that it overwrites, which need not end well. If the stream is a
// device.Delayer, contents that have not arrived delay only the task's first read of
// them, and a copy to the host only its first write to the buffer.
func (a *attempt) follow() error {
	a.waits, a.ends = a.waits[:0], a.ends[:0]
	delayer, _ := a.s.(device.Delayer)
	for i := range a.wants {
		w := &a.wants[i]
		a.ends.Add(w.c.moved)
		if !w.mode.reads() {
			a.ends.Add(w.c.ready)
		} else if err := w.c.failure(); err != nil {
			return fmt.Errorf("%s on %s: %w", w.t.name, w.d.id, &CopyError{err})
		} else {
			w.c.passOn(&a.made)
			for _, e := range a.made {
				if delayer != nil && e.Queue != a.queue {
					delayer.DelayRead(w.c.buf, e)
				} else {
					a.waits.Add(e)
				}
			}
		}
		if !w.mode.writes() {
			continue
		}
		copiesOut := w.d.of(w.t).out.Record().Queue
		for _, e := range w.c.readers {
			if delayer != nil && e.Queue == copiesOut && !e.Done() {
				delayer.DelayWrite(w.c.buf, e)
			} else {
				a.ends.Add(e)
			}
		}
	}
	return a.queueWaits()
}

// queueWaits makes the stream wait for the events that follow has collected. Causes come
// before their copy in a.waits, and end before it: the stream waits for the end of the
// copy first, so that it wakes once.
func (a *attempt) queueWaits() error {
	for i := len(a.waits) - 1; i > 0; i-- {
		if err := a.s.WaitForEnd(a.waits[i]); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	for _, e := range a.waits {
		if e.Queue == a.queue {
			continue
		}
		if err := a.s.WaitFor(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	for _, e := range a.ends {
		if e.Queue == a.queue || e.Done() || a.waits.Covers(e) {
			continue
		}
		if err := a.s.WaitForEnd(e); err != nil {
			return fmt.Errorf("acquire: wait for copies: %w", err)
		}
	}
	return nil
}
