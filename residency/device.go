package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// devState is a device as a manager uses it: its copy streams, and the memory
// of tensors there. The manager's lock guards it. Bytes are counted four ways:
// used by tensors' copies, pooled for reuse, pending (deleted while queued work
// still uses them), and free.
type devState struct {
	dev           device.Device
	index         int // in the manager's list, and in Tensor.copies
	id            string
	spec          device.Spec
	in, peer, out device.Stream
	ledger        *Ledger

	budget    int64 // bytes; 0: none
	used      int64 // bytes of tensors' copies
	pool      pool
	pending   int64 // deleted bytes whose last use has not ended yet
	deleted   []pendingBytes
	sweepAt   int       // sweep deleted when it has that many entries
	peak      int64     // largest value of taken so far
	residents []*Tensor // tensors with a buffer here
	missing   int64     // bytes that the attempt under way must allocate
	freeErr   error     // of pooled buffers, for Close to report
}

// pendingBytes is memory that was deleted while queued work still uses it.
type pendingBytes struct {
	bytes int64
	uses  fence
}

// open opens the copy streams.
func (d *devState) open() error {
	for _, s := range []struct {
		name string
		to   *device.Stream
	}{{"copy-in", &d.in}, {"peer", &d.peer}, {"copy-out", &d.out}} {
		st, err := d.dev.NewStream(s.name)
		if err != nil {
			return fmt.Errorf("%s stream of %s: %w", s.name, d.id, err)
		}
		*s.to = st
	}
	return nil
}

// streams lists the copy streams that are open.
func (d *devState) streams() []device.Stream {
	var open []device.Stream
	for _, s := range []device.Stream{d.in, d.peer, d.out} {
		if s != nil {
			open = append(open, s)
		}
	}
	return open
}

// end closes the copy streams, which waits for their work.
func (d *devState) end() error {
	var errs []error
	for _, s := range d.streams() {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// copy is t's copy here.
func (d *devState) copy(t *Tensor) *devCopy { return &t.copies[d.index] }

// taken is the bytes that are not free.
func (d *devState) taken() int64 { return d.used + d.pool.bytes + d.pending }

// fits reports whether the budget has room for bytes more.
func (d *devState) fits(bytes int64) bool { return d.budget <= 0 || d.taken()+bytes <= d.budget }

// attach makes b the buffer of t's copy here. The copy has no contents yet.
func (d *devState) attach(t *Tensor, b device.Buffer) {
	c := d.copy(t)
	c.buf, c.version, c.ready, c.readers = b, 0, device.Event{}, c.readers[:0]
	c.slot = len(d.residents)
	d.residents = append(d.residents, t)
	d.used += t.bytes
	d.peak = max(d.peak, d.taken())
}

// detach removes t's copy here from the records. Its buffer belongs to the pool
// by then, or is deleted.
func (d *devState) detach(t *Tensor, cause string) {
	c, last := d.copy(t), len(d.residents)-1
	moved := d.residents[last] // takes the free slot
	d.residents[c.slot] = moved
	d.copy(moved).slot = c.slot
	d.residents[last] = nil
	d.residents = d.residents[:last]
	d.used -= t.bytes
	c.buf, c.version, c.ready, c.readers = nil, 0, device.Event{}, c.readers[:0]
	d.ledger.add(entry{kind: Drop, t: t, device: d.index, from: d.id, cause: cause})
}

// allocate gets t a new buffer.
func (d *devState) allocate(t *Tensor) error {
	b, err := d.dev.Alloc(t.meta, t.usage)
	if err != nil {
		return err
	}
	d.attach(t, b)
	d.pool.grow(d.used + d.pending)
	return nil
}

// discard deletes t's copy, if there is one. Its bytes count as pending until
// queued work with them has ended.
func (d *devState) discard(t *Tensor, cause string) error {
	c := d.copy(t)
	if c.buf == nil {
		return nil
	}
	err := c.buf.Delete()
	d.addPending(t.bytes, c.pending())
	d.detach(t, cause)
	if err != nil {
		return fmt.Errorf("delete %s on %s: %w", t.name, d.id, err)
	}
	return nil
}

// addPending counts bytes as pending until uses have ended. It swaps the memory of
// uses for a spare one, so that neither is allocated again.
func (d *devState) addPending(bytes int64, uses *fence) {
	if uses.done() {
		return
	}
	if len(d.deleted) >= d.sweepAt {
		d.sweep()
		d.sweepAt = max(64, 2*len(d.deleted))
	}
	n := len(d.deleted)
	if n < cap(d.deleted) {
		d.deleted = d.deleted[:n+1]
	} else {
		d.deleted = append(d.deleted, pendingBytes{})
	}
	x := &d.deleted[n]
	x.bytes = bytes
	x.uses, *uses = *uses, x.uses[:0]
	d.pending += bytes
}

// sweep stops counting pending bytes whose uses have ended.
func (d *devState) sweep() {
	n := 0
	for i := range d.deleted {
		x := &d.deleted[i]
		if x.uses.done() {
			d.pending -= x.bytes
			continue
		}
		d.deleted[n], d.deleted[i] = d.deleted[i], d.deleted[n]
		n++
	}
	d.deleted = d.deleted[:n]
}

// oldest returns the event to wait for until the bytes deleted longest ago are
// free. It is the zero Event if all uses have ended.
func (d *devState) oldest() device.Event {
	for i := range d.deleted {
		for _, e := range d.deleted[i].uses {
			if !e.Done() {
				return e
			}
		}
	}
	return device.Event{}
}
