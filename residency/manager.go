package residency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// The causes of residency errors.
var (
	ErrUndefined   = errors.New("tensor has no contents")
	ErrStale       = errors.New("the host's bytes are not current")
	ErrBudget      = errors.New("device budget is too small")
	ErrLeased      = errors.New("tensor is leased")
	ErrNotResident = errors.New("not resident")
	ErrMismatch    = errors.New("metadata does not agree")
	ErrNotHeld     = errors.New("lease is not held")
	ErrClosed      = errors.New("residency manager is closed")
)

// DefaultStaging bounds the host memory of what is on its way to a device.
const DefaultStaging = 64 << 20

// ManagerOptions changes how a Manager works.
type ManagerOptions struct {
	// Budgets are bytes per device over all usages. None, or 0, leaves it to
	// the device to run out of memory.
	Budgets []int64
	// Strict makes Seal work.
	Strict bool
	// StagingBytes bounds the host memory through which stores stream and
	// tensors are moved in; one tensor is let through whatever its size. 0 means
	// DefaultStaging.
	StagingBytes int64
	// OnTransfer is told of every entry of the ledger, in order, with the
	// manager locked: it must return soon and not call back.
	OnTransfer func(Row)
}

// Manager moves tensors and remembers where they are. Create with New, Close
// after use.
type Manager struct {
	mu      sync.Mutex
	places  []place
	tensors map[Key]*Tensor
	active  []*Lease   // held leases
	graves  []*hostMem // host memory to free once its copies have ended
	spare   []*hostMem // records for reuse
	staged  int64      // bytes that came from stores or were moved in, until they are freed
	staging int64      // their bound
	clock   uint64     // counts Acquires, for the least recently used
	attempt uint64     // counts attempts, so that marks need no clearing
	wants   []want     // scratch of one attempt
	waits   fence      // likewise
	order   order
	seal    seal
	ledger  *Ledger
	freed   chan struct{} // closed at the next Release, while someone waits
	seqs    map[Sequence]*sequence
	sorts   map[string]int // number of each metadata and usage
	marks   int64          // of the ledger, when the pools were last looked through
	freeErr error          // of host memory and pooled buffers, for Close to report
	closed  bool
}

// place is a device as the manager uses it.
type place struct {
	dev           device.Device
	id            string
	spec          device.Spec
	in, peer, out device.Stream
	budget        int64 // 0: none
	used          int64 // bytes of copies held
	pending       int64 // bytes deleted whose last use has not ended yet
	pool          pool  // buffers for reuse
	peak          int64 // of taken
	graves        []grave
	sweepAt       int       // sweep graves when there are that many
	residents     []*Tensor // tensors with a buffer here
	missing       int64     // scratch: bytes this attempt must allocate
}

// Memory is a device's memory as residency sees it, in bytes.
type Memory struct {
	Budget  int64 // 0: none
	Held    int64 // buffers of tensors
	Pooled  int64 // kept for the next tensors, free for anything else
	Pending int64 // deleted, still in use by queued work
	Peak    int64 // most of Held + Pooled + Pending
}

// New makes a manager of devices, which stay the caller's and must outlive it.
// It opens three streams on each: copy-in, peer and copy-out.
func New(devs []device.Device, o ManagerOptions) (*Manager, error) {
	if len(devs) == 0 {
		return nil, errors.New("residency needs at least one device")
	}
	if len(o.Budgets) > len(devs) {
		return nil, fmt.Errorf("%d budgets for %d devices: give at most one each", len(o.Budgets), len(devs))
	}
	m := &Manager{
		places:  make([]place, len(devs)),
		tensors: map[Key]*Tensor{},
		staging: o.StagingBytes,
		seqs:    map[Sequence]*sequence{},
		sorts:   map[string]int{},
	}
	if m.staging <= 0 {
		m.staging = DefaultStaging
	}
	m.seal.strict = o.Strict
	names := make([]string, len(devs))
	for i, d := range devs {
		m.places[i] = place{dev: d, id: string(d.ID()), spec: d.Spec(), sweepAt: 64}
		names[i] = m.places[i].id
		if i < len(o.Budgets) {
			m.places[i].budget = o.Budgets[i]
		}
	}
	m.ledger = newLedger(names, o.OnTransfer)
	for i := range m.places {
		if err := m.places[i].open(); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// open opens the copy streams.
func (p *place) open() error {
	for _, s := range []struct {
		name string
		to   *device.Stream
	}{{"copy-in", &p.in}, {"peer", &p.peer}, {"copy-out", &p.out}} {
		st, err := p.dev.NewStream(s.name)
		if err != nil {
			return fmt.Errorf("%s stream of %s: %w", s.name, p.id, err)
		}
		*s.to = st
	}
	return nil
}

// Declare makes the record of a tensor, without contents. The same key again
// gives the same tensor; metadata and usage must agree.
func (m *Manager) Declare(k Key, meta shape.Meta, u device.Usage) (*Tensor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tensors[k]; t != nil {
		if !t.meta.Equal(meta) || t.usage != u {
			return nil, fmt.Errorf("%w: %v is declared already, not as %v (%v)", ErrMismatch, t, meta, u)
		}
		return t, nil
	}
	if meta.DType.Size() == 0 {
		return nil, fmt.Errorf("%w: %v has no element type", ErrMismatch, k)
	}
	if err := meta.Shape.Validate(); err != nil {
		return nil, fmt.Errorf("%v: %w", k, err)
	}
	t := &Tensor{
		m: m, key: k, name: k.String(), meta: meta, usage: u, bytes: meta.Bytes(),
		sort: m.sortOf(meta, u), truth: nowhere, copies: make([]devCopy, len(m.places)),
	}
	m.tensors[k] = t
	return t, nil
}

// Memory is what the manager holds on device d.
func (m *Manager) Memory(d int) Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	p := &m.places[d]
	p.sweep()
	return Memory{Budget: p.budget, Held: p.used, Pooled: p.pool.bytes, Pending: p.pending, Peak: p.peak}
}

// Ledger counts what moved. It lives as long as the manager.
func (m *Manager) Ledger() *Ledger { return m.ledger }

// placeName is a truth for people.
func (m *Manager) placeName(d int) string {
	switch d {
	case nowhere:
		return "nowhere"
	case onHost:
		return "host"
	case inStore:
		return "store"
	}
	return m.places[d].id
}

// Drop says that the contents are no longer needed: the buffer of every copy
// goes to its device's pool, and the host's bytes are given back. The record stays, without contents. A leased tensor is refused.
func (m *Manager) Drop(t *Tensor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range t.copies {
		if t.copies[d].leased > 0 {
			return fmt.Errorf("drop %s: %w on %s: release it first", t.name, ErrLeased, m.places[d].id)
		}
	}
	for d := range t.copies {
		m.recycle(t, d, "dropped")
	}
	m.loseHost(t)
	t.src = nil
	t.truth = nowhere
	t.version++
	return nil
}

// Close waits for the copies that were queued, deletes every buffer, frees
// every host buffer and closes the streams. Work of the caller's streams that
// the copies wait for must have been queued. Leases still held are an error
// that names their tensors; their memory is freed all the same. A second call
// does nothing.
func (m *Manager) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	m.wake()
	m.mu.Unlock()
	// No copy is queued after closed was set, so streams can be ended unlocked.
	var errs []error
	for i := range m.places {
		errs = append(errs, m.places[i].end()...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	errs = append(errs, m.leaks())
	for _, t := range m.tensors {
		for d := range t.copies {
			t.copies[d].leased = 0
			errs = append(errs, m.discard(t, d, "closed"))
		}
		m.loseHost(t)
		t.truth = nowhere
	}
	m.trim()
	m.freeGraves()
	errs = append(errs, m.freeErr)
	return errors.Join(errs...)
}

// end closes the streams of a place, which waits for their work.
func (p *place) end() (errs []error) {
	for _, s := range []device.Stream{p.in, p.peer, p.out} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errs
}

// leaks is an error naming what is still leased, or nil.
func (m *Manager) leaks() error {
	if len(m.active) == 0 {
		return nil
	}
	var names []string
	for _, l := range m.active {
		for _, n := range l.needs {
			names = append(names, n.Tensor.name+" on "+m.places[n.Device].id)
		}
	}
	return fmt.Errorf("close: %d lease(s) not released: %w: %s", len(m.active), ErrLeased, strings.Join(names, ", "))
}

// freeGraves frees all host memory whose copies have ended, as they have when
// the streams are closed; what is being viewed is freed by its viewer.
func (m *Manager) freeGraves() {
	for _, h := range m.graves {
		for _, e := range h.uses {
			if err := ended(context.Background(), e); err != nil {
				m.freeErr = errors.Join(m.freeErr, err)
			}
		}
	}
	m.sweepHost()
}
