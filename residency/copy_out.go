package residency

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// out is the purpose of a copy to the host.
type out struct {
	kind   ledger.Kind
	reason ledger.Reason
	cause  string
	// salvage copies what is there: also if the task that was to write it failed,
	// and under a seal.
	salvage bool
	to      *devState // that copies it in from there; nil if none does
}

// memoryFor is the device that allocates the host memory for a copy out of t. Both
// devices of a transit copy fastest if it is the one that does not address the host's
// memory itself.
func (m *Manager) memoryFor(t *Tensor, o out) device.Device {
	d := &m.devs[t.truth]
	if o.to != nil && d.spec.HostVisible {
		d = o.to
	}
	return d.dev
}

// copyOut queues a copy of t from the device that has the truth to host memory.
func (m *Manager) copyOut(t *Tensor, h *hostmem.Block, o out) error {
	d := &m.devs[t.truth]
	c, y := d.copy(t), d.of(t)
	var err error
	if !o.salvage {
		if err = t.tenant.seal.transfer(&t.identity, crossing{kind: o.kind, reason: o.reason, device: d.index, cause: o.cause}); err != nil {
			return err
		}
	}
	if failure := c.failure(); failure != nil && o.kind == ledger.PullBack && !o.salvage {
		err = &CopyError{failure} // a spill takes along whatever is there
	}
	h.Ready = device.Event{}
	if err == nil {
		h.Ready, err = y.copyOut(h, c, &m.scratch.before)
	}
	if err != nil {
		return fmt.Errorf("%v of %s from %s: %w", o.kind, t.name, d.id, err)
	}
	h.Version, h.From = t.version, d.id
	c.passOn(&h.Causes)
	c.carryOn(&h.Carried)
	h.Carried.Add(h.Ready)
	h.AddUse(h.Ready)
	c.readers.Add(h.Ready)
	t.note(d.index, ledger.Row{Kind: o.kind, Reason: o.reason, From: d.id, To: "host", Cause: o.cause, Event: y.out.Newest()})
	return nil
}

// toNew is copyOut to new host memory.
func (m *Manager) toNew(t *Tensor, o out) (h *hostmem.Block, err error) {
	dev := m.memoryFor(t, o)
	if o.kind == ledger.Spill || o.reason == ledger.Transit || t.usage == device.Activation { // another one will come
		h, err = m.host.AllocOut(dev, t.bytes, t.name)
	} else {
		h, err = m.host.Alloc(dev, t.bytes, t.name)
	}
	if err != nil {
		return nil, err
	}
	if err := m.copyOut(t, h, o); err != nil {
		m.host.Drop(h) // earlier copies may still use it
		return nil, err
	}
	return h, nil
}

// toHost is copyOut to memory that becomes the host's bytes of t.
func (m *Manager) toHost(t *Tensor, o out) error {
	h, err := m.toNew(t, o)
	if err != nil {
		return err
	}
	h.Private = o.kind == ledger.Spill || o.reason == ledger.Transit
	m.dropHost(t)
	t.host = h
	m.rankAll(t)
	return nil
}

// copyOut queues the copy itself. It waits for all that made the contents, and for the
// uses of the host memory, in before.
func (y *tenancy) copyOut(h *hostmem.Block, c *devCopy, before *device.Fence) (device.Event, error) {
	if _, err := y.renewed(&y.out, outName); err != nil {
		return device.Event{}, err
	}
	*before = (*before)[:0]
	before.Add(c.ready)
	before.Add(c.moved)
	for _, e := range h.Uses() {
		before.Add(e)
	}
	return y.out.CopyOut(h.Buffer(), c.buf, *before)
}
