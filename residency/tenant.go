package residency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/ledger"
)

// TenantOptions describes a tenant. The zero value is good for a tenant that has
// the manager to itself.
type TenantOptions struct {
	// Name begins the names of the tenant's tensors, unless it is empty. No two
	// tenants have the same name at once.
	Name string
	// Devices are those that the tenant uses, by index; nil: all. What becomes of
	// another one is no matter to it.
	Devices []int
	// Floors is, per device, the least memory in bytes with which the tenant's
	// largest task runs. Join reserves it. None means 0.
	Floors []int64
	// Peaks is, per device, the memory in bytes that the tenant's tasks take where
	// there is enough. If the peaks of all tenants exceed a device, tensors leave it
	// and come back, and Seal allows that. None means 0.
	Peaks []int64
	// Base is tensors that the tenant has together with others, whose options have an equal one; nil: there
	// are none. Floors and Peaks are without them. Declare gives them by their keys. The tenant's tasks only read them.
	Base *BaseOptions
	// Passing are the values (Key.Value) that the tenant's tasks hand from one device to
	// another where these have no path of their own. They pass through the host, and
	// Seal allows that.
	Passing []string
	// HostBytes is the most bytes that the tenant's tensors take on the host at once if
	// the tenant is alone. Join takes room on the disk for those that all tenants have
	// beyond ManagerOptions.HostBytes. If there is none, it fails with hostfile.ErrNoRoom; where both the tenant and one that
	// waits for its turn take turns, it waits until a tenant has closed, or is suspended.
	HostBytes int64
	// HeldBytes is the most bytes that calls of HoldHost have for the tenant at once. They
	// are kept free for those calls, and their room in the file is taken by Join.
	HeldBytes int64
	// LargestBytes is the bytes of the largest tensor among them.
	LargestBytes int64
	// Turns is whether the tenant takes turns, as [admission] says: once it has had its turn, it calls Yield and Continue
	// between two tasks where Due says so.
	Turns bool
	// AtOnce has Join fail with ErrOccupied where it would have to wait for the floors.
	AtOnce bool
	// Waiting is called by Join, and by Continue after Suspend, if it has to wait for the floors; nil for nobody.
	Waiting func()
	// Yielded is called by Yield where it gives the floors away; nil for nobody.
	Yielded func()
	// OnRead is called when a call for a device, by index, has read a store or waited
	// for another to read it; nil for nobody. It is called without the manager's lock.
	OnRead func(device int, began, ended time.Time)
	// Strict makes Seal work.
	Strict bool
	// OnTransfer is told of every entry of the tenant's ledger, in order, with the
	// manager locked: it must return soon and not call back.
	OnTransfer func(ledger.Row)
}

// Tenant is the part of a manager that belongs to one user of its devices, such
// as a training: its tensors, by key, its copy streams, its ledger and its seal.
// All tenants take memory from the same devices, and the tensors of one that are
// not needed soon give way to another's. Make it with [Manager.Join]. Methods of
// the Manager work on the tensors of any tenant.
type Tenant struct {
	*Manager
	opt    TenantOptions
	used   []int     // the devices that the tenant uses: its tensors can be on no others
	on     []tenancy // per device of the manager
	ledger *ledger.Ledger
	alone  bool  // the manager closes with it
	base   *base // that it has with others; nil: none
	keeps  *base // whose tensors it has, as no user of the manager; nil: it is one

	// Under the manager's lock:
	tensors map[Key]*Tensor
	order   order // of uses to come
	seal    seal
	spills  spills
	acted   uint64 // the manager's clock at the tenant's last call of Acquire
	gone    bool   // it has closed
	beside  func() // ends the time in which its copies run beside what computes in this process; nil: it has not begun

	suspended atomic.Bool // its floors are not reserved; written under the lock
	// reserved is of its floors, or waits for them; nil while Suspend has given it up, and for the owner of a base.
	reserved atomic.Pointer[admission.Reservation]
}

// Join makes a tenant, and reserves its floors. While these and the floors of
// other tenants exceed a device, it waits until some of them have closed, or give theirs away for a turn: [admission]
// says in which order. It fails
// with ErrBudget if a device has less than the floor, with ErrOccupied in place of
// waiting with o.AtOnce, and with the cause of ctx if that ends.
func (m *Manager) Join(ctx context.Context, o TenantOptions) (*Tenant, error) {
	if err := m.admissible(&o); err != nil {
		return nil, err
	}
	if err := m.claimName(o.Name); err != nil {
		return nil, err
	}
	u, err := m.reserve(ctx, o)
	if err != nil {
		m.freeName(o.Name)
		return nil, err
	}
	return u, nil
}

// admissible refuses floors that never fit.
func (m *Manager) admissible(o *TenantOptions) error {
	if len(o.Floors) > len(m.devs) || len(o.Peaks) > len(m.devs) {
		return fmt.Errorf("%w: %d floors and %d peaks were given for %d devices: give one of each for every device", ErrMismatch, len(o.Floors), len(o.Peaks), len(m.devs))
	}
	for i, floor := range m.baseBytes(o.Base) {
		if i < len(o.Floors) {
			floor += o.Floors[i]
		}
		if d := &m.devs[i]; floor > d.spec.MemoryBytes {
			has, needs := units.TwoBytes(d.spec.MemoryBytes, floor)
			return fmt.Errorf("%w: %s has %s, but at least %s are needed there: raise the device's memory, use smaller batches or more devices", ErrBudget, d.id, has, needs)
		}
	}
	return nil
}

// claimName makes a name that of a tenant, or of one that waits to join.
func (m *Manager) claimName(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("join: %w", ErrClosed)
	case m.names[name]:
		return fmt.Errorf("%w: another tenant is named %q: give this one another name", ErrMismatch, name)
	}
	m.names[name] = true
	return nil
}

// freeName undoes claimName.
func (m *Manager) freeName(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.names, name)
}

// reserve waits for a tenant's floors. Then it opens the tenant's streams, and adds
// the tenant.
func (m *Manager) reserve(ctx context.Context, o TenantOptions) (*Tenant, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	waits := o.Waiting
	if o.AtOnce {
		waits = func() { giveUp(ErrOccupied) }
	}
	tell := waits
	if tell != nil {
		tell = sync.OnceFunc(waits)
	}
	for {
		b := m.claimBase(&o)
		r, err := m.floors.Reserve(ctx, o.claim(b), tell)
		if err != nil {
			m.unclaimBase(b)
			return nil, fmt.Errorf("%s waits for device memory: %w", title(o.Name), err)
		}
		left, turns := m.nextLeave(), o.Turns && !o.AtOnce && m.yielded()
		u, err := m.openTenant(o, r, b)
		if err == nil {
			return u, nil
		}
		m.floors.Release(r)
		if !turns || !errors.Is(err, hostfile.ErrNoRoom) {
			return nil, err
		}
		if tell != nil {
			tell()
		}
		select {
		case <-left:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s waits for host memory: %w", title(o.Name), context.Cause(ctx))
		}
	}
}

// nextLeave is closed once a tenant leaves, or is suspended.
func (m *Manager) nextLeave() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		m.left = make(chan struct{})
	}
	return m.left
}

// tellLeft wakes those that wait for nextLeave. The lock is held.
func (m *Manager) tellLeft() {
	if m.left != nil {
		close(m.left)
		m.left = nil
	}
}

// yielded reports whether a tenant waits to go on: those that do have more on the host together than where each waited for
// the end of the others.
func (m *Manager) yielded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.tenants, func(u *Tenant) bool { return u.suspended.Load() && u.reserved.Load() != nil })
}

// claim is what a tenant with the base b reserves.
func (o *TenantOptions) claim(b *base) admission.Claim {
	return admission.Claim{Floors: o.Floors, Common: b.floors(), Turns: o.Turns}
}

// title names a tenant for people.
func title(name string) string { return cmp.Or(name, "a tenant without a name") }

// openTenant adds a tenant whose floors are reserved as r, and its base claimed; after an error it is not
// any more. Close waits for it, and so finds all streams.
func (m *Manager) openTenant(o TenantOptions, r *admission.Reservation, b *base) (*Tenant, error) {
	m.mu.Lock()
	if m.closed {
		b.unclaim(m)
		m.mu.Unlock()
		return nil, fmt.Errorf("join: %w", ErrClosed)
	}
	m.opening.Add(1)
	defer m.opening.Done()
	m.mu.Unlock()
	u, err := m.newTenant(o)
	if err != nil {
		m.unclaimBase(b)
		return nil, err
	}
	if err := m.attach(u, b); err != nil {
		m.unclaimBase(b)
		return nil, errors.Join(err, u.endStreams())
	}
	m.mu.Lock()
	u.reserved.Store(r)
	m.tenants = append(m.tenants, u)
	m.show()
	m.tighten()
	m.mu.Unlock()
	if err := m.resizeFile(); err != nil {
		m.mu.Lock()
		m.tenants = slices.DeleteFunc(m.tenants, func(o *Tenant) bool { return o == u })
		m.show()
		over := m.detach(u)
		m.mu.Unlock()
		return nil, errors.Join(err, u.endStreams(), m.dismiss(over))
	}
	return u, nil
}

// newTenant opens a tenant's streams.
func (m *Manager) newTenant(o TenantOptions) (*Tenant, error) {
	u := &Tenant{
		Manager: m,
		opt:     o,
		on:      make([]tenancy, len(m.devs)),
		tensors: map[Key]*Tensor{},
		seal:    newSeal(o.Strict, o.Passing, len(m.devs)),
	}
	var names []string
	for i := range m.devs {
		names = append(names, m.devs[i].id)
		if o.Devices == nil || slices.Contains(o.Devices, i) {
			u.on[i].used, u.used = true, append(u.used, i)
		}
	}
	u.ledger = ledger.New(names, o.OnTransfer)
	return u, u.openStreams()
}

// openStreams opens the copy streams on the devices that the tenant uses.
func (u *Tenant) openStreams() error {
	for _, i := range u.used {
		y, d := &u.on[i], &u.devs[i]
		y.d, y.prefix = d, u.StreamName("")
		if err := y.open(); err != nil {
			return errors.Join(err, u.endStreams())
		}
	}
	return nil
}

// tighten finds the devices that the peaks of all tenants exceed. The tensors of
// each may leave them from now on, and come back later.
func (m *Manager) tighten() {
	for i := range m.devs {
		if m.peaks(i) > m.devs[i].spec.MemoryBytes {
			for _, u := range m.tenants {
				u.seal.tight[i] = true
			}
		}
	}
}

// Lose tells that a device was given up: calls of Join that wait for its memory, and
// later ones, fail with the cause.
func (m *Manager) Lose(device int, cause error) { m.floors.Lose(device, cause) }

// Declare makes the record of a tensor, without contents. The same key again
// gives the same tensor; metadata and usage must agree. The tenant's name
// becomes part of the key. A key of the tenant's base gives that one's tensor.
func (u *Tenant) Declare(k Key, meta shape.Meta, use device.Usage) (*Tensor, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.ofBase(k)
	k.Tenant = u.opt.Name
	if u.gone {
		return nil, fmt.Errorf("declare %v: %w", k, ErrClosed)
	}
	if t == nil {
		t = u.tensors[k]
	}
	if t != nil {
		if !t.meta.Equal(meta) || t.usage != use {
			return nil, fmt.Errorf("%w: %v is declared already, and cannot be %v (%v) too: use another key", ErrMismatch, t, meta, use)
		}
		return t, nil
	}
	if meta.DType.Size() == 0 {
		return nil, fmt.Errorf("%w: %v has no element type", ErrMismatch, k)
	}
	if err := meta.Shape.Validate(); err != nil {
		return nil, fmt.Errorf("%v: %w", k, err)
	}
	t = &Tensor{
		key: k, name: k.String(), meta: meta, usage: use, bytes: meta.Bytes(), tenant: u,
		truth: nowhere, copies: make([]devCopy, len(u.devs)),
	}
	u.tensors[k] = t
	return t, nil
}

// Forget is Drop for tensors that nobody uses any more: their records go too. The
// order of uses must not have them. Those of the tenant's base stay.
func (u *Tenant) Forget(ts ...*Tensor) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, t := range ts {
		if t.base() != nil {
			continue
		}
		if err := u.drop(t); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(u.tensors, t.key)
	}
	return errors.Join(errs...)
}

// Used lists the devices that the tenant uses, by index.
func (u *Tenant) Used() []int { return slices.Clone(u.used) }

// StreamName is the name for a stream of the tenant: it begins with the tenant's
// own, so that operations of several tenants can be told apart.
func (u *Tenant) StreamName(stream string) string {
	if u.opt.Name == "" {
		return stream
	}
	return u.opt.Name + ":" + stream
}

// home is the device from whose host memory the tenant's tensors are filled: the first
// one that it uses.
func (u *Tenant) home() device.Device {
	if len(u.used) == 0 {
		return u.devs[0].dev
	}
	return u.devs[u.used[0]].dev
}

// Tensors counts the tenant's records.
func (u *Tenant) Tensors() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.tensors)
}

// knows reports whether a need's tensor belongs to the tenant, or is read of its base, and whether
// the tenant uses its device.
func (u *Tenant) knows(n *Need) bool {
	return n.Tensor != nil && (n.Tensor.tenant == u || u.reads(n)) && n.Device >= 0 && n.Device < len(u.on) && u.on[n.Device].used
}

// Ledger counts the bytes that moved for the tenant. It outlives the tenant.
func (u *Tenant) Ledger() *ledger.Ledger { return u.ledger }

// Memory is the tenant's part of a device's Stats: Live and Peak, and both by
// usage.
func (u *Tenant) Memory(device int) device.Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.on[device].memory
}

// Failures are the failures of copies since the last call that did no lasting harm: the
// copy was repeated and ended well, or it failed for good, and later copies do not
// depend on it. A task that waits for a copy that failed for good fails.
func (u *Tenant) Failures() (list []error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.on {
		list = append(list, u.on[i].takeFailures()...)
		if u.base != nil && !u.gone {
			list = append(list, u.base.owner.on[i].takeFailures()...)
		}
	}
	return list
}

// Passed tells the tenant's devices that the caller has waited for an event. Memory whose
// last uses are passed is then preferred for copies.
func (u *Tenant) Passed(e device.Event) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, i := range u.used {
		u.devs[i].dev.Passed(e)
	}
}

// Lost is an ErrLost that names the tensors of the tenant and of its base whose contents were lost when they
// were spilled, and the cause; nil if there are none.
func (u *Tenant) Lost() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.spills.failure(); err != nil || u.base == nil || u.gone {
		return err
	}
	return u.base.owner.spills.failure()
}

// Close frees the memory of the tenant's tensors, on devices and on the host, and
// gives its floors to those who wait in Join. Then it waits for the copies that
// were queued, and closes the tenant's streams. Work of the caller's streams that
// the copies wait for must have been queued. Leases still held are an error that
// names their tensors, and their memory is freed too. A second call does nothing.
func (u *Tenant) Close() error {
	err := u.dismiss(u)
	if u.alone {
		err = errors.Join(err, u.Manager.Close())
	}
	return err
}

// dismiss closes a tenant, and the owner of its base after that one's last user. A nil tenant is closed.
func (m *Manager) dismiss(u *Tenant) error {
	if u == nil {
		return nil
	}
	m.mu.Lock()
	if u.gone {
		m.mu.Unlock()
		return nil
	}
	u.gone = true
	held := m.endLeases(u)
	for _, t := range u.tensors {
		for i := range m.devs {
			m.devs[i].free(t, "closed")
		}
		m.dropHost(t)
		t.truth, t.src = nowhere, nil
	}
	clear(u.tensors)
	m.leave(u)
	if u.beside != nil {
		u.beside()
	}
	over := m.detach(u)
	m.line.Call()
	m.mu.Unlock()
	// No copy is queued after gone was set, so streams can be ended unlocked.
	err := errors.Join(u.endStreams(), held, m.dismiss(over))
	m.mu.Lock()
	m.host.Sweep()
	m.mu.Unlock()
	return errors.Join(err, m.resizeFile())
}

// endLeases ends the leases that a tenant still holds. Its error names their
// tensors; it is nil if there are none.
func (m *Manager) endLeases(u *Tenant) error {
	var names []string
	count := 0
	m.leases = slices.DeleteFunc(m.leases, func(l *Lease) bool {
		if l.tenant != u {
			return false
		}
		count++
		for _, n := range l.needs {
			m.devs[n.Device].unlease(n.Tensor)
			m.rankAll(n.Tensor) // which others may use
			names = append(names, n.Tensor.name+" on "+m.devs[n.Device].id)
		}
		m.freeScratch(l, l.needs)
		return true
	})
	if count == 0 {
		return nil
	}
	return fmt.Errorf("close: %d lease(s) not released: %w: %s", count, ErrLeased, strings.Join(names, ", "))
}

// leave removes u, and gives its floors to those who wait.
func (m *Manager) leave(u *Tenant) {
	m.tenants = slices.DeleteFunc(m.tenants, func(o *Tenant) bool { return o == u })
	for _, i := range u.used {
		m.devs[i].most.forget(&u.on[i])
	}
	m.show()
	m.tellLeft()
	delete(m.names, u.opt.Name)
	if r := u.reserved.Swap(nil); r != nil {
		m.floors.Release(r)
	}
}

// endStreams closes the tenant's copy streams, which waits for their work.
func (u *Tenant) endStreams() error {
	var errs []error
	for i := range u.on {
		errs = append(errs, u.on[i].end())
	}
	return errors.Join(errs...)
}
