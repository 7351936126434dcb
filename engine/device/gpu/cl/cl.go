package cl

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
)

// Kind is the name of this device kind.
const Kind = "opencl"

func init() {
	device.Register(Kind, Open)
	device.RegisterLister(Kind, list)
	device.RegisterDescriber(Kind, described)
}

// list describes the devices that may be used, each with the budget of one that is
// alone on it.
func list() (specs []device.Spec, err error) {
	found, err := usable()
	for i, x := range found {
		budget, failure := defaultBudget(x, 1)
		err = errors.Join(err, failure)
		s := spec(idOf("", i), x, budget)
		s.CopyOut = true
		specs = append(specs, s)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", Kind, err)
	}
	return specs, err
}

// idOf names the device with a number.
func idOf(prefix string, number int) device.ID {
	return device.ID(fmt.Sprintf("%s%s:%d", prefix, Kind, number))
}

// Open opens o.Count devices of the system's drivers.
func Open(o device.OpenOptions) ([]device.Device, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	list, err := usable()
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	return openAll(o, list)
}

// openAll opens devices of those found.
func openAll(o device.OpenOptions, list []found) (devices []device.Device, err error) {
	openings, err := assign(o, list)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Kind, err)
	}
	contexts := make([]*context, len(list))
	for i, x := range openings {
		d, err := openOn(&contexts[x.of], list[x.of], i, x.budget, o)
		if err != nil {
			return nil, errors.Join(append([]error{err}, closeAll(devices)...)...)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// openOn opens one device on a physical device, whose context is opened where it is nil.
func openOn(c **context, of found, number int, budget int64, o device.OpenOptions) (device.Device, error) {
	if *c != nil {
		return open(number, (*c).share(), budget, o)
	}
	opened, err := openContext(of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", idOf(o.Prefix, number), err)
	}
	*c = opened
	return open(number, opened, budget, o)
}

// described is a device of a description. Its programs are never loaded.
func described(s device.Spec) (device.Device, error) {
	return streams.New(streams.Config{
		Spec: s, Supports: supports,
		Bind: func(p *planner.Plan, co device.CompileOptions) (streams.Program, error) { return bind(nil, nil, p, co) },
	})
}

func closeAll(devices []device.Device) (errs []error) {
	for _, d := range devices {
		errs = append(errs, d.Close())
	}
	return errs
}

// open opens one device, with one use of a context.
func open(number int, c *context, budget int64, o device.OpenOptions) (device.Device, error) {
	id := idOf(o.Prefix, number)
	l, err := newLibrary(c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", id, err), c.close())
	}
	var m *memory
	d, err := streams.New(streams.Config{
		Spec: spec(id, c.of, budget), Options: o, Host: hostMemory(c), Supports: supports,
		Reserve: func(bytes int64) (_ streams.Memory, err error) {
			m, err = reserve(c, bytes)
			return m, err
		},
		Bind: func(p *planner.Plan, co device.CompileOptions) (streams.Program, error) {
			pr, err := bind(l, m, p, co)
			if err != nil {
				return nil, err
			}
			pr.times = streams.TimesOf(o)
			return pr, nil
		},
		Stop: l.close,
	})
	if err != nil {
		return nil, errors.Join(err, l.close(), c.close())
	}
	return d, nil
}

// Guesses where a driver tells nothing.
const (
	clockGuess    = 1000 // MHz
	linkBandwidth = 10e9 // bytes a second
	lanesPerUnit  = 16   // products in a cycle of a compute unit
)

// spec describes a device.
func spec(id device.ID, of found, budget int64) device.Spec {
	clock := of.clock
	if clock == 0 {
		clock = clockGuess
	}
	cores := 0
	if of.kind&deviceIsCPU != 0 {
		cores = of.units
	}
	return device.Spec{
		ID:             id,
		Kind:           Kind,
		Description:    fmt.Sprintf("%s, %s", of.name, of.platform),
		Numerics:       numerics(of),
		Threads:        1,
		Cores:          cores,
		OfCores:        cores,
		MemoryBytes:    budget,
		FlopsPerSecond: float64(of.units) * lanesPerUnit * float64(clock) * 1e6,
		LinkBytesPerS:  linkBandwidth,
		PeerCopy:       true,
	}
}
