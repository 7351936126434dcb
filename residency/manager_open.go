package residency

import (
	"cmp"
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/residency/admission"
	"github.com/berth-ml/berth/residency/hostmem"
)

// New makes a manager for devices. They stay the caller's and must outlive it.
// It opens a stream on each, to move copies together. A device has one manager at a
// time: New fails with ErrOwned, and names the other, until that is closed.
func New(devs []device.Device, o ManagerOptions) (*Manager, error) {
	if len(devs) == 0 {
		return nil, errors.New("residency needs at least one device: open one with device.Open")
	}
	m := &Manager{
		name: cmp.Or(o.Name, "another residency manager"),
		devs: make([]devState, len(devs)),
	}
	for _, d := range devs {
		m.devices = append(m.devices, string(d.ID()))
	}
	for i, d := range devs {
		m.devs[i] = devState{dev: d, index: i, id: m.devices[i], spec: d.Spec(), unit: device.MemoryUnit, evictor: device.EvictorOf(d)}
	}
	m.names, m.floors, m.line = map[string]bool{}, admission.NewFloors(m.memory()), admission.NewLine(overlap)
	if err := m.own(); err != nil {
		return nil, err
	}
	if err := m.open(o); err != nil {
		err = errors.Join(err, m.endMoves())
		if m.host != nil {
			err = errors.Join(err, m.host.Close())
		}
		m.disown()
		return nil, err
	}
	return m, nil
}

// open makes the host memory, and the streams for moves.
func (m *Manager) open(o ManagerOptions) error {
	h := hostmem.Options{Staging: o.StagingBytes, Bound: o.HostBytes}
	if h.Staging <= 0 {
		h.Staging = DefaultStaging
	}
	if h.Bound > 0 {
		f, err := hostfile.Create(o.SpillDir)
		switch {
		case err == nil:
			h.File = f
		case errors.Is(err, errors.ErrUnsupported): // then the bound is one that nothing may exceed
		default:
			return err
		}
	}
	m.host = hostmem.New(h)
	for i := range m.devs {
		if err := m.devs[i].open(); err != nil {
			return err
		}
	}
	return nil
}

// Open makes a manager for devices with one tenant, which has it to itself. The
// manager closes with the tenant.
func Open(devs []device.Device, m ManagerOptions, t TenantOptions) (*Tenant, error) {
	x, err := New(devs, m)
	if err != nil {
		return nil, err
	}
	u, err := x.Join(context.Background(), t)
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	u.alone = true
	return u, nil
}
