package executor

import (
	"context"
	"errors"
	"fmt"

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

// Join makes a runtime on the devices. It waits until the devices have memory for
// the runtime's floors: see [residency.Manager.Join]. A failure of a task or a copy
// of one runtime fails no other one.
func (d *Devices) Join(ctx context.Context, o residency.TenantOptions) (*Runtime, error) {
	t, err := d.residency.Join(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		Devices: d.list, Residency: t,
		programs: map[string]*loaded{}, users: map[*residency.Tensor]int{},
	}
	for _, dev := range d.list {
		s, err := dev.NewStream(t.StreamName("compute"))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", dev.ID(), err), r.Close())
		}
		r.compute = append(r.compute, s)
	}
	return r, nil
}

// Close closes the runtimes' residency and frees all memory. Close the runtimes
// before. A second call does nothing.
func (d *Devices) Close() error { return d.residency.Close() }

// RuntimeOptions describes a runtime that has its devices to itself.
type RuntimeOptions struct {
	Manager residency.ManagerOptions
	Tenant  residency.TenantOptions
}

// NewRuntime makes a runtime that has devices to itself.
func NewRuntime(devs []device.Device, o RuntimeOptions) (*Runtime, error) {
	d, err := NewDevices(devs, o.Manager)
	if err != nil {
		return nil, err
	}
	r, err := d.Join(context.Background(), o.Tenant)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	r.alone = true
	return r, nil
}
