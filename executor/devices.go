package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// Devices are devices that several runtimes share, such as those of trainings
// that run at once. It does not own them. Its methods are safe for concurrent use.
type Devices struct {
	list      []device.Device
	residency *residency.Manager
}

// NewDevices makes devices ready for runtimes. The devices must outlive it.
func NewDevices(devs []device.Device, o residency.ManagerOptions) (*Devices, error) {
	m, err := residency.New(devs, o)
	if err != nil {
		return nil, err
	}
	return &Devices{list: devs, residency: m}, nil
}

// JoinOptions describes a runtime on shared devices.
type JoinOptions struct {
	// Tenant counts devices as the plans of the runtime do. Its Devices are set by Join.
	Tenant residency.TenantOptions
	// On is, per device of the plans, its index in the list given to NewDevices; -1 if
	// no plan uses it. Nil: plans are for that list, and may use all of it.
	On []int
}

// Join makes a runtime on the devices. It waits until the devices have memory for
// the runtime's floors: see [residency.Manager.Join]. A failure of a task or a copy
// of one runtime fails no other one, nor does the loss of a device that it does not
// use.
func (d *Devices) Join(ctx context.Context, o JoinOptions) (*Runtime, error) {
	asked := o.Tenant
	if o.On == nil {
		for i := range d.list {
			o.On = append(o.On, i)
		}
	} else {
		asked = o.shared(len(d.list))
	}
	t, err := d.residency.Join(ctx, asked)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		Residency: t, Devices: make([]device.Device, len(o.On)), on: make([]usedDevice, len(o.On)),
		programs: map[string]*Program{}, users: map[*residency.Tensor]int{},
	}
	for i, at := range o.On {
		if r.on[i].index = at; at < 0 {
			continue
		}
		r.Devices[i] = d.list[at]
		s, err := d.list[at].NewStream(t.StreamName(device.ComputeStream))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", d.list[at].ID(), err), r.Close())
		}
		r.on[i].compute, r.compute = s, append(r.compute, s)
	}
	r.Watch(WatchOptions{Timeout: defaultTimeout})
	return r, nil
}

// shared is the tenant's options by index of so many shared devices.
func (o *JoinOptions) shared(devices int) residency.TenantOptions {
	t, own := o.Tenant, make([]int, devices) // own is, per shared device, its index in the plans
	t.Base = o.base()
	t.Devices, t.Floors, t.Peaks = []int{}, make([]int64, devices), make([]int64, devices)
	for i, at := range o.On {
		if at < 0 {
			continue
		}
		own[at], t.Devices = i, append(t.Devices, at)
		if i < len(o.Tenant.Floors) {
			t.Floors[at] = o.Tenant.Floors[i]
		}
		if i < len(o.Tenant.Peaks) {
			t.Peaks[at] = o.Tenant.Peaks[i]
		}
	}
	if read := o.Tenant.OnRead; read != nil {
		t.OnRead = func(at int, began, ended time.Time) { read(own[at], began, ended) }
	}
	return t
}

// base is the tenant's base by index of the shared devices.
func (o *JoinOptions) base() *residency.BaseOptions {
	if o.Tenant.Base == nil {
		return nil
	}
	b := *o.Tenant.Base
	b.Tensors = slices.Clone(b.Tensors)
	for i := range b.Tensors {
		on := make([]int, 0, len(b.Tensors[i].Devices))
		for _, d := range b.Tensors[i].Devices {
			on = append(on, o.On[d])
		}
		b.Tensors[i].Devices = on
	}
	return &b
}

// Residency is the manager of the devices' memory, for users other than runtimes.
func (d *Devices) Residency() *residency.Manager { return d.residency }

// Lose gives up a device, by its index: what the runtimes have queued there fails with
// the cause, and so does joining the device.
func (d *Devices) Lose(device int, cause error) {
	d.list[device].GiveUp(cause)
	d.residency.Lose(device, cause)
}

// Close closes the runtimes' residency and frees all memory. Close the runtimes
// before. A second call does nothing.
func (d *Devices) Close() error { return d.residency.Close() }

// RuntimeOptions describes a runtime that has its devices to itself.
type RuntimeOptions struct {
	Manager residency.ManagerOptions
	Tenant  residency.TenantOptions // by index of the devices, as plans count them
	// Used are the indices of the devices that plans use; nil means all of them. The others
	// cost a step nothing.
	Used []int
	// Ranks are the processes that share the plans; nil: this one alone. Each makes a runtime of its
	// own devices: the others' are not in Used.
	Ranks *Ranks
}

// NewRuntime makes a runtime that has devices to itself.
func NewRuntime(devs []device.Device, o RuntimeOptions) (*Runtime, error) {
	used, join := devs, JoinOptions{Tenant: o.Tenant}
	if o.Used != nil {
		used, join.On = nil, slices.Repeat([]int{-1}, len(devs))
		for at, d := range o.Used {
			used, join.On[d] = append(used, devs[d]), at
		}
	}
	x, err := newExchange(o.Ranks, devs)
	if err != nil {
		return nil, err
	}
	d, err := NewDevices(used, o.Manager)
	if err != nil {
		return nil, err
	}
	r, err := d.Join(context.Background(), join)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	r.alone, r.exchange = true, x
	return r, nil
}
