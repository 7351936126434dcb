package cl

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
)

// Kind is the name of this device kind.
const Kind = "opencl"

func init() { device.Register(Kind, Open) }

// Open opens o.Count devices, one for each that a driver has.
func Open(o device.OpenOptions) ([]device.Device, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	list, err := devicesFound()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	shares, err := o.Shares(1, func(int) (int64, error) { return min(list[0].memory/2, list[0].object), nil })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	if len(shares) > len(list) {
		return nil, fmt.Errorf("%s: %d devices were asked for, there are %d", Kind, len(shares), len(list))
	}
	var devices []device.Device
	for i, s := range shares {
		d, err := open(i, list[i], s.MemoryBytes, o)
		if err != nil {
			errs := []error{err}
			for _, d := range devices {
				errs = append(errs, d.Close())
			}
			return nil, errors.Join(errs...)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func open(number int, of found, budget int64, o device.OpenOptions) (device.Device, error) {
	c, err := openContext(of)
	if err != nil {
		return nil, err
	}
	to, err := newCaller()
	if err != nil {
		return nil, err
	}
	l := &library{context: c, kernels: map[string]uintptr{}}
	if l.status, err = to.create(createBuffer, c.handle, readWrite, 64, 0); err != nil {
		return nil, err
	}
	lane, err := c.lane()
	if err != nil {
		return nil, err
	}
	zero := make([]byte, 64)
	if err := lane.call(enqueueWriteBuffer, lane.queue, l.status, 1, 0, 64, address(&zero[0]), 0, 0, 0); err != nil {
		return nil, err
	}
	c.giveBack(lane)
	var m *memory
	return streams.New(streams.Config{
		Spec: device.Spec{
			ID:             device.ID(fmt.Sprintf("%s:%d", Kind, number)),
			Kind:           Kind,
			Description:    fmt.Sprintf("%s, %s", of.name, of.platform),
			Numerics:       "OpenCL float32",
			Threads:        1,
			MemoryBytes:    budget,
			FlopsPerSecond: 1e9 * float64(of.threads),
			LinkBytesPerS:  10e9,
			PeerCopy:       true,
		},
		Sync: o.Sync, OnSpan: o.OnSpan, Host: host.Mappings{}, Alone: true, Supports: supports,
		Reserve: func(bytes int64) (streams.Memory, error) {
			r, err := c.reserve(bytes)
			if err != nil {
				return nil, err
			}
			m = r.(*memory)
			return r, nil
		},
		Bind: func(p *planner.Plan, o device.CompileOptions) (streams.Program, error) { return bind(l, m, p, o) },
	})
}
