package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// This file moves buffers between tensors' copies and a device's pool.

// recycle drops t's copy here, if there is one, and pools its buffer.
func (d *devState) recycle(t *Tensor, cause string) {
	c := d.copy(t)
	if c.buf == nil {
		return
	}
	d.pool.add(t.class, c.buf, t.bytes, *c.pending())
	c.readers = nil
	d.detach(t, cause)
	for d.pool.bytes > d.pool.most {
		d.drain(false)
	}
}

// take gives t a pooled buffer and reports whether there was one. Work in the
// queue writer must be able to write it without waiting, unless wait is set. A
// nil writer stands for any queue.
func (d *devState) take(t *Tensor, writer device.Queue, wait bool) bool {
	i := d.pool.find(t.class, writer, wait)
	if i < 0 {
		return false
	}
	e := d.pool.remove(t.class, i)
	d.attach(t, e.buf)
	d.copy(t).readers = e.uses.left()
	return true
}

// drain deletes the buffer pooled longest ago and reports whether there was one.
// With idle, it considers only buffers that no queued work uses.
func (d *devState) drain(idle bool) bool {
	class, at := d.pool.oldest(idle)
	if class >= 0 {
		d.unpool(class, at)
	}
	return class >= 0
}

// trim deletes all pooled buffers.
func (d *devState) trim() {
	for d.drain(false) {
	}
}

// unpool deletes a pooled buffer.
func (d *devState) unpool(class, i int) {
	e := d.pool.remove(class, i)
	if err := e.buf.Delete(); err != nil {
		d.freeErr = errors.Join(d.freeErr, fmt.Errorf("delete a pooled buffer on %s: %w", d.id, err))
	}
	d.addPending(e.bytes, &e.uses)
}

// shrink deletes pooled buffers until bytes more fit or none is left. Buffers
// that no queued work uses go first, since their memory is free at once; with
// idle, it deletes only these.
func (d *devState) shrink(bytes int64, idle bool) {
	for !d.fits(bytes) && d.drain(true) {
	}
	for !idle && !d.fits(bytes) && d.drain(false) {
	}
}

// freeIdle deletes idle pooled buffers until bytes more fit, and reports whether
// they do.
func (d *devState) freeIdle(bytes int64) bool {
	if d.fits(bytes) {
		return true
	}
	d.sweep()
	d.shrink(bytes, true)
	return d.fits(bytes)
}

// expire deletes buffers that were not taken for keepTicks ticks of the ledger.
func (d *devState) expire() {
	now := d.ledger.ticked()
	if now == d.pool.tick {
		return
	}
	d.pool.tick = now
	for class := range d.pool.lists {
		for len(d.pool.lists[class]) > 0 && now-d.pool.lists[class][0].tick >= keepTicks {
			d.unpool(class, 0)
		}
	}
}
