package residency

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// keepMarks is for how many marks of the ledger (steps, and boundaries between
// phases of the work) a pooled buffer is kept that nobody takes.
const keepMarks = 8

// pool keeps the buffers of a device whose contents are no longer needed, for
// the next tensor of equal metadata and usage: handing one on costs neither an
// allocation nor a wait of the host. Queued work may still use such a buffer;
// its events go with it, and who writes it next waits for them in its stream.
// Should that work fail, so does who waited for it, as with any overwriting.
//
// To every decision on memory, pooled bytes are free: they are deleted before
// anything is evicted, spilled or waited for. Two rules keep the pool from
// holding what nobody asks for: what was not taken for keepMarks marks is
// deleted, and it never holds more bytes than tensors and queued work had in
// use at once.
type pool struct {
	lists [][]pooled // per sort, in the order of pooling
	bytes int64
	most  int64  // of the bytes in use when a buffer was allocated
	turn  uint64 // counts what was pooled
}

// pooled is a buffer in a pool. The memory of its fence goes with it.
type pooled struct {
	buf   device.Buffer
	bytes int64
	uses  fence  // what was queued that touches it
	turn  uint64 // grows with the time of pooling
	mark  int64  // the ledger's marks at that time
}

// sortOf numbers what buffers must agree in to stand for each other.
func (m *Manager) sortOf(meta shape.Meta, u device.Usage) int {
	k := meta.String() + " " + u.String()
	n, ok := m.sorts[k]
	if !ok {
		n = len(m.sorts)
		m.sorts[k] = n
		for i := range m.places {
			m.places[i].pool.lists = append(m.places[i].pool.lists, nil)
		}
	}
	return n
}

// recycle gives up t's copy on device d, if there is one, and pools its buffer.
func (m *Manager) recycle(t *Tensor, d int, cause string) {
	p, c := &m.places[d], &t.copies[d]
	if c.buf == nil {
		return
	}
	if !c.ready.Done() {
		c.readers.add(c.ready)
	}
	p.pool.turn++
	l := &p.pool.lists[t.sort]
	*l = append(*l, pooled{c.buf, t.bytes, c.readers, p.pool.turn, m.marks})
	c.readers = nil
	p.pool.bytes += t.bytes
	m.forget(t, d, cause)
	for p.pool.bytes > p.pool.most {
		m.drain(p, false)
	}
}

// take finds t a pooled buffer on device d: the one pooled last among those
// whose uses have ended or stand in the queue of the writer to come, or else,
// if that one is to wait, the oldest. It reports whether there was one.
func (m *Manager) take(t *Tensor, d int, writer device.Queue, wait bool) bool {
	p, c := &m.places[d], &t.copies[d]
	l := p.pool.lists[t.sort]
	i := len(l) - 1
	for i >= 0 && !l[i].uses.before(writer) {
		i--
	}
	if i < 0 {
		if i = 0; !wait || len(l) == 0 {
			return false
		}
	}
	e := p.pool.remove(t.sort, i)
	m.hold(t, d, e.buf)
	c.readers = e.uses.left()
	return true
}

// grow notes what is in use, others bytes besides what is pooled.
func (o *pool) grow(others int64) {
	for _, l := range o.lists {
		for i := range l {
			if !l[i].uses.done() {
				others += l[i].bytes
			}
		}
	}
	o.most = max(o.most, others)
}

// idle reports whether there is a buffer of a sort that nothing queued uses.
func (o *pool) idle(sort int) bool {
	for _, e := range o.lists[sort] {
		if e.uses.done() {
			return true
		}
	}
	return false
}

// remove takes an entry out of a list.
func (o *pool) remove(sort, i int) pooled {
	e := o.lists[sort][i]
	o.lists[sort] = slices.Delete(o.lists[sort], i, i+1)
	o.bytes -= e.bytes
	return e
}

// drain deletes the buffer pooled longest ago, among those that nothing queued
// uses if idle is set. It reports whether there was one.
func (m *Manager) drain(p *place, idle bool) bool {
	sort, at := -1, 0
	var turn uint64
	for k, l := range p.pool.lists {
		for i := range l {
			if sort >= 0 && l[i].turn > turn {
				break
			}
			if !idle || l[i].uses.done() {
				sort, at, turn = k, i, l[i].turn
				break
			}
		}
	}
	if sort >= 0 {
		m.unpool(p, sort, at)
	}
	return sort >= 0
}

// unpool deletes a pooled buffer.
func (m *Manager) unpool(p *place, sort, i int) {
	e := p.pool.remove(sort, i)
	if err := e.buf.Delete(); err != nil {
		m.freeErr = errors.Join(m.freeErr, fmt.Errorf("delete a pooled buffer on %s: %w", p.id, err))
	}
	p.bury(e.bytes, &e.uses)
}

// yield deletes pooled buffers until bytes more fit or none is left; if idle
// is set, only those that nothing queued uses. These go first in any case: the
// memory of others is free only when that work has ended.
func (m *Manager) yield(p *place, bytes int64, idle bool) {
	for !p.fits(bytes) && m.drain(p, true) {
	}
	for !idle && !p.fits(bytes) && m.drain(p, false) {
	}
}

// expire deletes what was not taken for keepMarks marks.
func (m *Manager) expire() {
	now := m.ledger.marked()
	if now == m.marks {
		return
	}
	m.marks = now
	for d := range m.places {
		p := &m.places[d]
		for k := range p.pool.lists {
			for len(p.pool.lists[k]) > 0 && now-p.pool.lists[k][0].mark >= keepMarks {
				m.unpool(p, k, 0)
			}
		}
	}
}

// Trim deletes all pooled buffers, for who needs device memory by other ways
// than Acquire, such as compiling, and did not get it. What queued work still
// uses is free when that has ended.
func (m *Manager) Trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trim()
}

func (m *Manager) trim() {
	for d := range m.places {
		for m.drain(&m.places[d], false) {
		}
	}
}
