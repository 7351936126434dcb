package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/hostmem"
	"github.com/berth-ml/berth/residency/ledger"
)

// This file queues all copies. Nothing else touches a copy stream. Each copy waits for its
// source. The buffer of a copy to a device is new, and was taken for the copy's stream.

// peerPath reports whether device i can be copied to device j directly.
func (m *Manager) peerPath(i, j int) bool {
	a, b := &m.devs[i].spec, &m.devs[j].spec
	return i != j && a.Kind == b.Kind && a.PeerCopy && b.PeerCopy
}

// peerSource chooses a device with current contents of t that can copy them to d:
// the truth's device first, then any; -1 if there is none. A truth on the host
// comes before clean copies on other devices, unless it was fed: a batch is
// copied in once and on from there, and its host buffer is free sooner.
func (m *Manager) peerSource(t *Tensor, d *devState) int {
	if t.onDevice() && m.peerPath(t.truth, d.index) {
		return t.truth
	}
	if t.truth == onHost && !t.host.Lent() {
		return -1
	}
	for _, i := range t.tenant.used {
		if t.sound(&t.copies[i]) && m.peerPath(i, d.index) {
			return i
		}
	}
	return -1
}

// mustStream reports whether t must be read from its store before it can be
// brought to a device.
func (m *Manager) mustStream(t *Tensor, d *devState) bool {
	return t.truth == inStore && !t.hostCurrent() && m.peerSource(t, d) < 0
}

// copier is the stream that will bring t to a device: memory for t is taken for
// that stream.
func (m *Manager) copier(t *Tensor, d *devState) (device.Stream, error) {
	y := d.of(t)
	if m.peerSource(t, d) >= 0 {
		return y.renewed(&y.peer, peerName)
	}
	return y.renewed(&y.in, inName)
}

// bring queues the copies that make t's buffer on a device current.
func (m *Manager) bring(t *Tensor, d *devState, cause string) error {
	if from := m.peerSource(t, d); from >= 0 {
		return m.copyPeer(t, &m.devs[from], d, cause)
	}
	if !t.hostCurrent() {
		if !t.onDevice() {
			panic("BUG: " + t.name + " is brought from " + m.where(t.truth))
		}
		if err := m.toHost(t, out{kind: ledger.PullBack, reason: ledger.Transit, cause: cause, to: d}); err != nil {
			return err
		}
	}
	if !t.host.Staged() {
		return m.copyIn(t, d, ledger.CopyIn, cause)
	}
	if err := m.copyIn(t, d, ledger.StreamIn, cause); err != nil {
		return err
	}
	m.dropHost(t)
	return nil
}

// copyIn queues a copy from the host to t's buffer on a device.
func (m *Manager) copyIn(t *Tensor, d *devState, kind ledger.Kind, cause string) error {
	c, h, in := d.copy(t), t.host, d.of(t).in
	fed := h.Lent() && t.usage == device.Input
	var reason ledger.Reason
	if h.Private && t.onDevice() {
		reason = ledger.Transit
	}
	if err := t.tenant.seal.transfer(t, crossing{kind: kind, reason: reason, device: d.index, cause: cause, fed: fed, back: t.comesBack()}); err != nil {
		return err
	}
	before := &m.scratch.before
	*before = (*before)[:0]
	before.Add(h.Ready)
	if h.Lent() { // when the last copy from a fed buffer has ended, all have
		before.Add(t.fedDone)
	}
	done, err := in.CopyIn(c.buf, h.Buffer(), *before)
	if err != nil {
		return fmt.Errorf("copy-in of %s to %s: %w", t.name, d.id, err)
	}
	c.arrive(t.version, &h.Origin, done)
	h.AddUse(done)
	m.host.Touch(h)
	if h.Lent() {
		t.fedDone = done
	}
	from := "host"
	if kind == ledger.StreamIn {
		from = "store"
	}
	t.note(d.index, ledger.Row{Kind: kind, Reason: reason, From: from, To: d.id, Cause: cause, Event: in.Newest()})
	m.rankAll(t)
	return nil
}

// copyPeer queues a copy between two devices of a kind, on the peer stream of
// the one that receives.
func (m *Manager) copyPeer(t *Tensor, from, to *devState, cause string) error {
	src, dst, peer := from.copy(t), to.copy(t), to.of(t).peer
	before := &m.scratch.before
	*before = (*before)[:0]
	before.Add(src.Moved)
	before.Add(src.Ready)
	done, err := peer.CopyPeer(dst.buf, src.buf, *before)
	if err != nil {
		return fmt.Errorf("peer copy of %s from %s to %s: %w", t.name, from.id, to.id, err)
	}
	dst.arrive(t.version, &src.Origin, done)
	src.readElsewhere(done)
	t.note(to.index, ledger.Row{Kind: ledger.Peer, From: from.id, To: to.id, Cause: cause, Event: peer.Newest()})
	m.rankAll(t)
	return nil
}

// out says why a copy to the host is made. The ledger records it, and a seal allows or
// refuses it.
type out struct {
	kind   ledger.Kind
	reason ledger.Reason
	cause  string
	// salvage copies what is there: also if the task that was to write it failed,
	// and under a seal.
	salvage bool
	to      *devState // the device that copies it in afterwards; nil if none does
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
		if err = t.tenant.seal.transfer(t, crossing{kind: o.kind, reason: o.reason, device: d.index, cause: o.cause}); err != nil {
			return err
		}
	}
	if failure := c.failure(); failure != nil && o.kind == ledger.PullBack && !o.salvage {
		err = &CopyError{failure} // a spill takes along whatever is there
	}
	h.Ready = device.Event{}
	var done device.Event
	if err == nil {
		done, err = y.copyOut(h, c, &m.scratch.before)
	}
	if err != nil {
		return fmt.Errorf("%v of %s from %s: %w", o.kind, t.name, d.id, err)
	}
	h.Version, h.From = t.version, d.id
	h.Copied(&c.Origin, done)
	h.AddUse(done)
	c.readers.Add(done)
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
	before.Add(c.Ready)
	before.Add(c.Moved)
	for _, e := range h.Uses() {
		before.Add(e)
	}
	return y.out.CopyOut(h.Buffer(), c.buf, *before)
}

// PeerCopies appends the events, one per device, after which all copies of the
// tenant between devices that were queued so far have ended.
func (u *Tenant) PeerCopies(to []device.Event) []device.Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.on {
		if s := u.on[i].peer; s != nil {
			to = append(to, s.Record())
		}
	}
	return to
}

// Settle waits until all queued copies of the tenant have ended. It returns the
// failures of copies that repeating did not mend.
func (u *Tenant) Settle() (failures []error) {
	for i := range u.on {
		for _, s := range u.on[i].queues() {
			if err := s.Record().Wait(context.Background()); err != nil {
				failures = append(failures, err)
			}
		}
	}
	return failures
}
