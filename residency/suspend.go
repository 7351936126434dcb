package residency

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/residency/admission"
)

// Suspend gives the tenant's floors to those who wait in Join, or its place among those who wait for their turn. Its tensors stay
// where they are, and are the first to leave where others need the room. Until Continue the tenant acquires nothing; copies to the
// host need no floors. The tensors of its base stay while another tenant of that is not suspended. The tenant holds
// no lease. A second call does nothing.
func (u *Tenant) Suspend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return
	}
	if !u.suspended.Swap(true) {
		u.base.rest()
	}
	if r := u.reserved.Swap(nil); r != nil {
		u.floors.Release(r)
	}
}

// Wanted reports whether others wait for the tenant's floors, who get them if it takes turns. It takes no lock.
func (u *Tenant) Wanted() bool {
	r := u.reserved.Load()
	return r != nil && r.Wanted()
}

// Due tells that the tenant, which takes turns, has had its turn. It reports whether Yield is to be called: others get its floors
// then.
func (u *Tenant) Due() bool {
	r := u.reserved.Load()
	return r != nil && u.floors.Due(r)
}

// Yield is Suspend where Due still says so, and has Continue wait for the tenant's next turn.
func (u *Tenant) Yield() bool {
	if !u.yield() {
		return false
	}
	if told := u.opt.Yielded; told != nil {
		told()
	}
	return true
}

func (u *Tenant) yield() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.reserved.Load()
	if u.gone || r == nil || u.suspended.Load() || !u.floors.Yield(r) {
		return false
	}
	u.suspended.Store(true)
	u.base.rest()
	return true
}

// Rejoin has a suspended tenant wait for its floors, as Join does: Continue returns once it has them. It calls
// TenantOptions.Waiting if that has to wait. After Yield, and on a second call, it does nothing.
func (u *Tenant) Rejoin() error {
	r, err := u.rejoin()
	if err != nil {
		return fmt.Errorf("%s waits for device memory: %w", title(u.opt.Name), err)
	}
	if told := u.opt.Waiting; told != nil && r != nil && r.Waits() {
		told()
	}
	return nil
}

// rejoin is Rejoin. r is nil if it does nothing.
func (u *Tenant) rejoin() (r *admission.Reservation, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone:
		return nil, ErrClosed
	case !u.suspended.Load() || u.reserved.Load() != nil:
		return nil, nil
	}
	if r, err = u.floors.Join(u.opt.claim(u.base)); err != nil {
		return nil, err
	}
	u.reserved.Store(r)
	return r, nil
}

// Continue undoes Suspend and Yield. It waits for the floors as Join does, after Yield for the tenant's turn, and fails as Join
// does; the tenant is then suspended. Tensors that left come back when a task needs them.
func (u *Tenant) Continue(ctx context.Context) error {
	if !u.Suspended() {
		return nil
	}
	err := u.Rejoin()
	if err != nil {
		return err
	}
	r := u.reserved.Load()
	if r == nil { // suspended or closed meanwhile
		return fmt.Errorf("continue: %w", ErrSuspended)
	}
	err = u.floors.Wait(ctx, r)
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone:
		return fmt.Errorf("continue: %w", ErrClosed)
	case err != nil:
		u.reserved.CompareAndSwap(r, nil)
		return fmt.Errorf("%s waits for device memory: %w", title(u.opt.Name), err)
	case u.reserved.Load() != r:
		return fmt.Errorf("continue: %w", ErrSuspended)
	}
	u.suspended.Store(false)
	u.base.wake()
	return nil
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
