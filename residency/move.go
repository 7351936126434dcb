package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// This file queues every copy there is; nothing else touches a copy stream. A
// copy goes to a buffer without contents that queued work uses (plan and
// prefetch see to that); it waits for its source, and for what used a pooled
// buffer before.

// peerPath reports whether device i can be copied to device j directly.
func (m *Manager) peerPath(i, j int) bool {
	a, b := &m.places[i].spec, &m.places[j].spec
	return i != j && a.Kind == b.Kind && a.PeerCopy && b.PeerCopy
}

// peerSource is a device with current contents of t from which d can be
// reached, the truth first, or -1. Only a host truth is preferred to peers, but
// not one that was fed: the batch goes in once, and its buffer is free soonest.
func (m *Manager) peerSource(t *Tensor, d int) int {
	if t.truth >= 0 && m.peerPath(t.truth, d) {
		return t.truth
	}
	if t.truth == onHost && !t.host.fed {
		return -1
	}
	for i := range t.copies {
		if t.current(&t.copies[i]) && m.peerPath(i, d) {
			return i
		}
	}
	return -1
}

// bring queues what makes the contents of t's buffer on device d current.
func (m *Manager) bring(t *Tensor, d int, cause string) error {
	if from := m.peerSource(t, d); from >= 0 {
		return m.copyPeer(t, from, d, cause)
	}
	if !t.hostCurrent() {
		if t.truth < 0 {
			panic("BUG: " + t.name + " is brought from " + m.placeName(t.truth))
		}
		if err := m.copyOut(t, PullBack, Transit, cause); err != nil {
			return err
		}
	}
	if !t.host.staged && !t.host.streamed {
		return m.copyIn(t, d, CopyIn, cause)
	}
	if err := m.copyIn(t, d, StreamIn, cause); err != nil {
		return err
	}
	if t.host.streamed = false; t.host.staged {
		m.loseHost(t)
	}
	return nil
}

// copyIn queues a copy from the host to t's buffer on device d.
func (m *Manager) copyIn(t *Tensor, d int, kind Kind, cause string) error {
	c, h, p := &t.copies[d], t.host, &m.places[d]
	fed := h.fed && t.usage == device.Input
	if err := m.seal.transfer(t, kind, "", cause, fed); err != nil {
		return err
	}
	if err := c.follow(p.in, h.ready); err != nil {
		return fmt.Errorf("copy-in of %s to %s: %w", t.name, p.id, err)
	}
	if h.fed && !t.fedDone.Done() { // chained, so that the last copy stands for all
		if err := p.in.WaitFor(t.fedDone); err != nil {
			return fmt.Errorf("copy-in of %s to %s: %w", t.name, p.id, err)
		}
	}
	if err := p.in.CopyIn(c.buf, h.buf); err != nil {
		return fmt.Errorf("copy-in of %s to %s: %w", t.name, p.id, err)
	}
	c.arrive(t.version, p.in.Record())
	h.uses.add(c.ready)
	if h.fed {
		t.fedDone = c.ready
	}
	from := "host"
	if kind == StreamIn {
		from = "store"
	}
	m.ledger.add(entry{kind: kind, t: t, device: d, from: from, to: p.id, cause: cause})
	return nil
}

// copyPeer queues a copy between two devices of a kind, on the peer stream of
// the one that receives.
func (m *Manager) copyPeer(t *Tensor, from, to int, cause string) error {
	src, dst, p := &t.copies[from], &t.copies[to], &m.places[to]
	err := dst.follow(p.peer, src.ready)
	if err == nil {
		err = p.peer.CopyPeer(dst.buf, src.buf)
	}
	if err != nil {
		return fmt.Errorf("peer copy of %s from %s to %s: %w", t.name, m.places[from].id, p.id, err)
	}
	dst.arrive(t.version, p.peer.Record())
	src.readers.add(dst.ready)
	m.ledger.add(entry{kind: Peer, t: t, device: to, from: m.places[from].id, to: p.id, cause: cause})
	return nil
}

// copyOut queues a copy of the truth, which is on a device, to the host.
func (m *Manager) copyOut(t *Tensor, kind Kind, r Reason, cause string) error {
	d := t.truth
	c, p := &t.copies[d], &m.places[d]
	if err := m.seal.transfer(t, kind, r, cause, false); err != nil {
		return err
	}
	h, err := m.allocHost(t, d)
	if err != nil {
		return err
	}
	ev, err := p.queueOut(h.buf, c)
	if err != nil {
		m.freeHost(h)
		return fmt.Errorf("%v of %s from %s: %w", kind, t.name, p.id, err)
	}
	m.loseHost(t)
	h.version, h.ready = t.version, ev
	h.uses.add(ev)
	t.host = h
	c.readers.add(ev)
	m.ledger.add(entry{kind: kind, reason: r, t: t, device: d, from: p.id, to: "host", cause: cause})
	return nil
}

// queueOut queues the copy itself.
func (p *place) queueOut(dst device.HostBuffer, c *devCopy) (device.Event, error) {
	if err := follow(p.out, c.ready); err != nil {
		return device.Event{}, err
	}
	return p.out.CopyOut(dst, c.buf)
}

// follow makes s wait for e, which it depends on: a failure is passed on.
func follow(s device.Stream, e device.Event) error {
	if !e.Done() {
		return s.WaitFor(e)
	}
	return e.Err()
}

// follow makes s wait for e and for what used c's buffer before.
func (c *devCopy) follow(s device.Stream, e device.Event) error {
	for _, r := range c.readers {
		if r.Done() {
			continue
		}
		if err := s.WaitFor(r); err != nil {
			return err
		}
	}
	return follow(s, e)
}

// arrive notes that c has contents of a version once ready has happened.
func (c *devCopy) arrive(version uint64, ready device.Event) {
	c.version, c.ready = version, ready
	c.readers = c.readers[:0]
}

// Settle waits until all queued copies have ended. It returns what copy streams
// have failed with: everything queued on them later fails alike.
func (m *Manager) Settle() (failures []error) {
	for i := range m.places {
		p := &m.places[i]
		for _, s := range []device.Stream{p.in, p.peer, p.out} {
			if err := s.Record().Wait(context.Background()); err != nil {
				failures = append(failures, err)
			}
		}
	}
	return failures
}
