package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// devState is a device as a manager uses it: its copy streams, and the copies of
// tensors there. The manager's lock guards it.
type devState struct {
	dev           device.Device
	index         int // in the manager's list, and in Tensor.copies
	id            string
	spec          device.Spec
	in, peer, out device.Stream
	move          device.Stream   // within the device
	failed        []device.Stream // copy streams that were replaced
	ledger        *Ledger

	unit       int64     // bytes of which each buffer takes a multiple
	residents  []*Tensor // tensors with a buffer here
	missing    int64     // bytes that the attempt under way must take
	compaction compaction
	uses       *deviceUses // the known order of uses, or nil
	now        int         // the launch in it that was acquired last
	freeErr    error       // for Close to report
}

// The names of the copy streams.
const (
	inName   = "copy-in"
	peerName = "peer"
	outName  = "copy-out"
	moveName = "move"
)

// open opens the copy streams.
func (d *devState) open() error {
	for _, s := range []struct {
		name string
		to   *device.Stream
	}{{inName, &d.in}, {peerName, &d.peer}, {outName, &d.out}, {moveName, &d.move}} {
		st, err := d.dev.NewStream(s.name)
		if err != nil {
			return fmt.Errorf("%s stream of %s: %w", s.name, d.id, err)
		}
		*s.to = st
	}
	return nil
}

// renewed is a copy stream, replaced first if it has failed: later copies do not
// fail with it.
func (d *devState) renewed(s *device.Stream, name string) (device.Stream, error) {
	if (*s).Record().Err() == nil {
		return *s, nil
	}
	fresh, err := d.dev.NewStream(name)
	if err != nil {
		return nil, fmt.Errorf("%s stream of %s: %w", name, d.id, err)
	}
	d.failed, *s = append(d.failed, *s), fresh
	return fresh, nil
}

// streams lists the copy streams that are open.
func (d *devState) streams() []device.Stream {
	var open []device.Stream
	for _, s := range []device.Stream{d.in, d.peer, d.out, d.move} {
		if s != nil {
			open = append(open, s)
		}
	}
	return open
}

// end closes the copy streams, which waits for their work.
func (d *devState) end() error {
	var errs []error
	for _, s := range append(d.streams(), d.failed...) {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// copy is t's copy here.
func (d *devState) copy(t *Tensor) *devCopy { return &t.copies[d.index] }

// attach makes b, which was taken for work in stream s, the buffer of t's copy here.
// The copy has no contents yet, but whoever uses it waits for what s waits for.
func (d *devState) attach(t *Tensor, b device.Buffer, s device.Stream) {
	c := d.copy(t)
	c.buf, c.version, c.ready, c.moved, c.readers = b, 0, s.Record(), device.Event{}, c.readers[:0]
	c.slot = len(d.residents)
	d.residents = append(d.residents, t)
}

// free frees the buffer of t's copy here, if there is one. Whoever gets the
// memory next waits for the copy's last uses.
func (d *devState) free(t *Tensor, cause string) {
	c := d.copy(t)
	if c.buf == nil {
		return
	}
	d.note(c.buf.Free(c.lastUses()...), t.name)
	last := len(d.residents) - 1
	moved := d.residents[last] // takes the free slot
	d.residents[c.slot] = moved
	d.copy(moved).slot = c.slot
	d.residents[last] = nil
	d.residents = d.residents[:last]
	c.buf, c.version, c.ready, c.moved, c.readers = nil, 0, device.Event{}, device.Event{}, c.readers[:0]
	d.ledger.add(entry{kind: Drop, t: t, device: d.index, from: d.id, cause: cause})
}

// note keeps the failure to free something, for Close to report.
func (d *devState) note(err error, name string) {
	if err != nil {
		d.freeErr = errors.Join(d.freeErr, fmt.Errorf("free %s on %s: %w", name, d.id, err))
	}
}
