package bench

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"

	_ "github.com/berth-ml/berth/engine/device/cpu"    // registers itself
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // registers itself
	_ "github.com/berth-ml/berth/engine/device/null"   // registers itself
)

// opens is how the devices of a measurement are opened.
func (o RunOptions) opens() device.OpenOptions {
	return device.OpenOptions{Threads: o.Threads, Shared: o.ShareDevice}
}

// openDevices opens the devices that "cpu" or "cpu:2" names.
func openDevices(name string, o device.OpenOptions) ([]device.Device, error) {
	list, err := device.ParseList(name)
	if err != nil || len(list) != 1 || list[0].Count < 1 {
		return nil, fmt.Errorf("%w: devices %q: write a kind, as in cpu, or a kind and a count, as in cpu:2", ErrOptions, name)
	}
	o.Count = list[0].Count
	devs, err := device.Open(list[0].Kind, o)
	if err == nil && !devs[0].Spec().CopyOut {
		err = fmt.Errorf("%w: devices %q compute nothing: measure devices that do, such as cpu", ErrOptions, name)
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		return nil, err
	}
	return devs, err
}

// specs lists the devices' descriptions.
func specs(devs []device.Device) []device.Spec {
	out := make([]device.Spec, len(devs))
	for i, d := range devs {
		out[i] = d.Spec()
	}
	return out
}
