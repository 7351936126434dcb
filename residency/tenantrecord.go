package residency

import (
	"errors"
	"github.com/berth-ml/berth/residency/ledger"
	"time"
)

// TenantOptions describes a tenant. The zero value is good for a tenant that has
// the manager to itself.
type TenantOptions struct {
	// Name begins the names of the tenant's tensors, unless it is empty. No two
	// tenants have the same name at once.
	Name string
	// Floors is, per device, the least memory in bytes with which the tenant's
	// largest task runs. Join reserves it. None means 0.
	Floors []int64
	// Peaks is, per device, the memory in bytes that the tenant's tasks take where
	// there is enough. If the peaks of all tenants exceed a device, tensors leave it
	// and come back, and Seal allows that. None means 0.
	Peaks []int64
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
	opt     TenantOptions
	tensors map[Key]*Tensor
	on      []tenancy // per device
	ledger  *ledger.Ledger
	order   order
	seal    seal
	spills  spills
	acted   uint64 // the manager's clock at the tenant's last call of Acquire
	gone    bool   // it has closed
}

// newTenant opens a tenant's streams.
func newTenant(devs []devState, names []string, o TenantOptions) (*tenant, error) {
	u := &tenant{
		opt: o, tensors: map[Key]*Tensor{}, on: make([]tenancy, len(devs)),
		ledger: ledger.New(names, o.OnTransfer), seal: seal{strict: o.Strict, tight: make([]bool, len(devs))},
	}
	for i := range devs {
		d := &devs[i]
		u.on[i].dev, u.on[i].id, u.on[i].prefix = d.dev, d.id, u.StreamName("")
		if err := u.on[i].open(); err != nil {
			return nil, errors.Join(err, u.endStreams())
		}
	}
	return u, nil
}

// endStreams closes the tenant's copy streams, which waits for their work.
func (u *tenant) endStreams() error {
	var errs []error
	for i := range u.on {
		errs = append(errs, u.on[i].end())
	}
	return errors.Join(errs...)
}

// StreamName is the name for a stream of the tenant: it begins with the tenant's
// own, so that operations of several tenants can be told apart.
func (u *tenant) StreamName(stream string) string {
	if u.opt.Name == "" {
		return stream
	}
	return u.opt.Name + ":" + stream
}

// title names the tenant for people.
func (u *tenant) title() string {
	if u.opt.Name == "" {
		return "a tenant without a name"
	}
	return u.opt.Name
}

// knows reports whether a need's tensor belongs to the tenant, and its device to
// the manager.
func (u *tenant) knows(n *Need) bool {
	return n.Tensor != nil && n.Tensor.tenant == u && n.Device >= 0 && n.Device < len(u.on)
}
