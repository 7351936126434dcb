package residency

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// devState is a device as a manager uses it, with the copies of tensors there.
// The manager's lock guards it.
type devState struct {
	dev   device.Device
	index int // in the manager's list, and in Tensor.copies
	id    string
	spec  device.Spec
	move  device.Stream // for copies within the device

	evictor   device.Evictor // the device's own policy; nil: the common one
	unit      int64          // bytes of which each buffer takes a multiple
	residents []*Tensor      // tensors with a buffer here
	ranking   ranking
	missing   int64 // bytes that the attempt under way must take
	leased    int64 // bytes of the copies that leases contain
	freeErr   error // for Close to report
}

// moveName is the name of the stream for copies within a device.
const moveName = "move"

// open opens the stream for copies within the device.
func (d *devState) open() (err error) {
	if d.move, err = d.dev.NewStream(moveName); err != nil {
		return fmt.Errorf("%s stream of %s: %w", moveName, d.id, err)
	}
	return nil
}

// of is the device as t's tenant uses it.
func (d *devState) of(t *Tensor) *tenancy { return &t.tenant.on[d.index] }

// copy is t's copy here.
func (d *devState) copy(t *Tensor) *devCopy { return &t.copies[d.index] }

// attach makes b, which was taken for work in stream s, the buffer of t's copy here.
// The copy has no contents yet, but whoever uses it waits for what s waits for.
func (d *devState) attach(t *Tensor, b device.Buffer, s device.Stream) {
	c := d.copy(t)
	c.clear()
	c.buf, c.ready = b, s.Record()
	c.slot = len(d.residents)
	d.residents = append(d.residents, t)
	d.of(t).count(t.usage, d.takes(t.bytes))
}

// free frees the buffer of t's copy here, if there is one. Whoever gets the
// memory next waits for the copy's last uses.
func (d *devState) free(t *Tensor, cause string) {
	c := d.copy(t)
	if c.buf == nil {
		return
	}
	d.unlist(t)
	d.note(c.buf.Free(c.lastUses()...), t.name)
	d.of(t).count(t.usage, -d.takes(t.bytes))
	last := len(d.residents) - 1
	moved := d.residents[last] // takes the free slot
	d.residents[c.slot] = moved
	d.copy(moved).slot = c.slot
	d.residents[last] = nil
	d.residents = d.residents[:last]
	c.buf = nil
	c.clear()
	t.note(d.index, ledger.Row{Kind: ledger.Drop, From: d.id, Cause: cause})
}

// lease makes t's copy here one that a lease contains.
func (d *devState) lease(t *Tensor) {
	c := d.copy(t)
	if c.leased == 0 {
		d.leased += t.bytes
	}
	c.leased++
}

// unlease undoes lease.
func (d *devState) unlease(t *Tensor) {
	c := d.copy(t)
	c.leased--
	if c.leased == 0 {
		d.leased -= t.bytes
	}
}

// takes is the memory that a buffer of so many bytes takes.
func (d *devState) takes(bytes int64) int64 { return (bytes + d.unit - 1) / d.unit * d.unit }

// freeBytes is the bytes that no buffer has, in pieces or not.
func (d *devState) freeBytes() int64 { return d.spec.MemoryBytes - d.dev.Stats().Live }

// note keeps the failure to free something, for Close to report.
func (d *devState) note(err error, name string) {
	if err != nil {
		d.freeErr = errors.Join(d.freeErr, fmt.Errorf("free %s on %s: %w", name, d.id, err))
	}
}

// clean reports whether a device's copy of t can go without a copy to the host: the newest
// contents are elsewhere too, or nobody needs them.
func (d *devState) clean(t *Tensor) bool {
	return t.discarded || t.truth != d.index || t.otherTruth(d.index) != nowhere
}

// next counts the device's launches until t is used there, and reports whether
// that use reads it. A tenant that has not acquired for long will not soon. A
// tensor that the order does not know is not used: the longer it was not, the
// later.
func (d *devState) next(t *Tensor, clock uint64) (distance int, reads bool) {
	c := d.copy(t)
	if c.object == 0 {
		return unknownUse + int(clock-c.used), true
	}
	y := d.of(t)
	distance, reads = y.uses.order.Next(c.object-1, y.now)
	return distance + int(clock-t.tenant.acted), reads
}
