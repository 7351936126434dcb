package residency

import (
	"context"
	"fmt"
)

// Suspend gives the tenant's floors to those who wait in Join. Its tensors stay where they are, and are
// the first to leave where others need the room. Until Continue the tenant acquires nothing; copies to the
// host need no floors. The tensors of its base stay while another tenant of that is not suspended. The tenant holds no lease. A second call does nothing.
func (u *Tenant) Suspend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone || u.suspended.Load() {
		return
	}
	u.suspended.Store(true)
	u.floors.Release(u.reserved.Swap(nil))
	u.base.rest()
}

// Continue undoes Suspend. It waits for the floors as Join does, and fails as Join does; the tenant is
// then still suspended. Tensors that left come back when a task needs them.
func (u *Tenant) Continue(ctx context.Context) error {
	if !u.Suspended() {
		return nil
	}
	r, err := u.floors.Reserve(ctx, u.opt.claim(u.base), u.opt.Waiting)
	if err != nil {
		return fmt.Errorf("%s waits for device memory: %w", title(u.opt.Name), err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		u.floors.Release(r)
		return fmt.Errorf("continue: %w", ErrClosed)
	}
	u.reserved.Store(r)
	u.suspended.Store(false)
	u.base.wake()
	return nil
}

// Wanted reports whether others wait for the tenant's floors who take turns, as it does, and get them once those that
// take turns have called Suspend. It takes no lock.
func (u *Tenant) Wanted() bool {
	r := u.reserved.Load()
	return r != nil && r.Wanted()
}

// Suspended reports whether the tenant has given up its floors.
func (u *Tenant) Suspended() bool { return u.suspended.Load() }

// usable refuses a tenant that is closed or suspended.
func (u *Tenant) usable() error {
	switch {
	case u.gone:
		return ErrClosed
	case u.suspended.Load():
		return ErrSuspended
	}
	return nil
}
