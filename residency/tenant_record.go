package residency

import (
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
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
	// Passing are the values (Key.Value) that the tenant's tasks hand from one device to
	// another where these have no path of their own. They pass through the host, and
	// Seal allows that.
	Passing []string
	// HostBytes is the most bytes that the tenant's tensors take on the host at once if
	// the tenant is alone. Join takes room on the disk for those that all tenants have
	// beyond ManagerOptions.HostBytes, and fails with hostfile.ErrNoRoom if there is none.
	HostBytes int64
	// HeldBytes is the most bytes that calls of HoldHost have for the tenant at once. They
	// are kept free for those calls, and their room in the file is taken by Join.
	HeldBytes int64
	// LargestBytes is the bytes of the largest tensor among them.
	LargestBytes int64
	// AtOnce has Join fail with ErrOccupied where it would have to wait for the floors.
	AtOnce bool
	// Waiting is called by Join if it has to wait for the floors; nil for nobody.
	Waiting func()
	// OnRead is called when a call for a device, by index, has read a store or waited
	// for another to read it; nil for nobody. It is called without the manager's lock.
	OnRead func(device int, began, ended time.Time)
	// Strict makes Seal work.
	Strict bool
	// OnTransfer is told of every entry of the tenant's ledger, in order, with the
	// manager locked: it must return soon and not call back.
	OnTransfer func(ledger.Row)
}

// tenant is the record of a Tenant. The manager's lock guards it.
type tenant struct {
	account
	opt     TenantOptions
	tensors map[Key]*Tensor
	order   order
}

// newTenant opens a tenant's streams.
func newTenant(devs []device.Device, o TenantOptions) (*tenant, error) {
	u := &tenant{
		account: account{name: o.Name, onRead: o.OnRead, on: make([]tenancy, len(devs)), seal: newSeal(o.Strict, o.Passing, len(devs))},
		opt:     o,
		tensors: map[Key]*Tensor{},
	}
	for i := range devs {
		if o.Devices == nil || slices.Contains(o.Devices, i) {
			u.on[i].used, u.used = true, append(u.used, i)
		}
	}
	return u, u.open(devs, o.OnTransfer)
}

// knows reports whether a need's tensor belongs to the tenant, and whether the tenant
// uses its device.
func (u *tenant) knows(n *Need) bool {
	return n.Tensor != nil && n.Tensor.tenant == &u.account && n.Device >= 0 && n.Device < len(u.on) && u.on[n.Device].used
}
