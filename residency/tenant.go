package residency

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// Tenant is the part of a manager that belongs to one user of its devices, such
// as a training: its tensors, by key, its copy streams, its ledger and its seal.
// All tenants take memory from the same devices, and the tensors of one that are
// not needed soon give way to another's. Make it with [Manager.Join]. Methods of
// the Manager work on the tensors of any tenant.
type Tenant struct {
	*Manager
	*tenant
	alone bool // the manager closes with it
}

// Declare makes the record of a tensor, without contents. The same key again
// gives the same tensor; metadata and usage must agree. The tenant's name
// becomes part of the key.
func (u *Tenant) Declare(k Key, meta shape.Meta, use device.Usage) (*Tensor, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k.Tenant = u.opt.Name
	if u.gone {
		return nil, fmt.Errorf("declare %v: %w", k, ErrClosed)
	}
	if t := u.tensors[k]; t != nil {
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
	t := &Tensor{
		identity: identity{key: k, name: k.String(), meta: meta, usage: use, bytes: meta.Bytes()},
		shared:   &u.shared, tenant: &u.account,
		truth: nowhere, copies: make([]devCopy, len(u.devs)),
	}
	u.tensors[k] = t
	return t, nil
}

// Forget is Drop for tensors that nobody uses any more: their records go too. The
// order of uses must not have them.
func (u *Tenant) Forget(ts ...*Tensor) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var errs []error
	for _, t := range ts {
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

// Tensors counts the tenant's records.
func (u *Tenant) Tensors() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.tensors)
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

// Lost is an ErrLost that names the tenant's tensors whose contents were lost when they
// were spilled, and the cause; nil if there are none.
func (u *Tenant) Lost() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.spills.failure()
}

// Close frees the memory of the tenant's tensors, on devices and on the host, and
// gives its floors to those who wait in Join. Then it waits for the copies that
// were queued, and closes the tenant's streams. Work of the caller's streams that
// the copies wait for must have been queued. Leases still held are an error that
// names their tensors, and their memory is freed too. A second call does nothing.
func (u *Tenant) Close() error {
	err := u.dismiss(u.tenant)
	if u.alone {
		err = errors.Join(err, u.Manager.Close())
	}
	return err
}
