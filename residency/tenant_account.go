package residency

import (
	"cmp"
	"errors"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// account is the part of a tenant that its tensors refer to. The manager's lock
// guards it.
type account struct {
	name   string
	onRead func(device int, began, ended time.Time)
	on     []tenancy // per device
	used   []int     // the devices that the tenant uses: its tensors can be on no others
	ledger *ledger.Ledger
	seal   seal
	spills spills
	acted  uint64 // the manager's clock at the tenant's last call of Acquire
	gone   bool   // it has closed
}

// open opens the copy streams on the devices that the tenant uses.
func (u *account) open(devs []device.Device, onRow func(ledger.Row)) error {
	var names []string
	for i, d := range devs {
		y := &u.on[i]
		y.dev, y.id, y.prefix = d, string(d.ID()), u.StreamName("")
		names = append(names, y.id)
		if !y.used {
			continue
		}
		if err := y.open(); err != nil {
			return errors.Join(err, u.endStreams())
		}
	}
	u.ledger = ledger.New(names, onRow)
	return nil
}

// endStreams closes the tenant's copy streams, which waits for their work.
func (u *account) endStreams() error {
	var errs []error
	for i := range u.on {
		errs = append(errs, u.on[i].end())
	}
	return errors.Join(errs...)
}

// StreamName is the name for a stream of the tenant: it begins with the tenant's
// own, so that operations of several tenants can be told apart.
func (u *account) StreamName(stream string) string {
	if u.name == "" {
		return stream
	}
	return u.name + ":" + stream
}

// title names a tenant for people.
func title(name string) string { return cmp.Or(name, "a tenant without a name") }

// home is the device from whose host memory the tenant's tensors are filled: the first
// one that it uses.
func (u *account) home() device.Device {
	if len(u.used) == 0 {
		return u.on[0].dev
	}
	return u.on[u.used[0]].dev
}
