package null

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
)

// Kind is the name of the kind.
const Kind = "null"

func init() {
	device.Register(Kind, Open)
	device.RegisterDescriber(Kind, func(s device.Spec) (device.Device, error) { return host.New(host.Config{Spec: s}) })
}

// speed is the speed that a null device states for its arithmetic and its link.
// It is equal for all, so that stages are balanced as on equal devices.
const speed = 1e12

// Open opens o.Count devices. Without a budget each gets that of a cpu device; it
// touches no memory.
func Open(o device.OpenOptions) ([]device.Device, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("null: %w", err)
	}
	shares, err := o.Shares(1, host.DefaultBudget)
	if err != nil {
		return nil, fmt.Errorf("null: %w", err)
	}
	var devices []device.Device
	for i, s := range shares {
		d, err := open(i, s.MemoryBytes, o)
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

// open opens one device. Without kernels the machinery only counts.
func open(number int, budget int64, o device.OpenOptions) (device.Device, error) {
	d, err := host.New(host.Config{
		Spec: device.Spec{
			ID:             device.ID(fmt.Sprintf("%s%s:%d", o.Prefix, Kind, number)),
			Kind:           Kind,
			Description:    "computes nothing",
			Threads:        1,
			MemoryBytes:    budget,
			FlopsPerSecond: speed,
			LinkBytesPerS:  speed,
			PeerCopy:       true,
			HostVisible:    true,
		},
		Options: o,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
