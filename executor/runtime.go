package executor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// Runtime is what programs run on: devices, one compute stream on each, and
// the residency of their tensors. It does not own the devices. Queue work on
// it from one goroutine.
type Runtime struct {
	Devices   []device.Device
	Residency *residency.Manager
	compute   []device.Stream
	cause     error // of the failure that was reported, nil if there was none
}

// NewRuntime starts the streams.
func NewRuntime(devs []device.Device, o residency.Options) (*Runtime, error) {
	r := &Runtime{Devices: devs}
	for _, d := range devs {
		s, err := d.NewStream("compute")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", d.ID(), err), r.Close())
		}
		r.compute = append(r.compute, s)
	}
	m, err := residency.New(devs, o)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.Residency = m
	return r, nil
}

// Close waits for queued work and frees streams and tensors. After a failure
// that Wait or Step reported, it does not repeat how that spread to other
// streams.
func (r *Runtime) Close() error {
	var errs []error
	for _, s := range r.compute {
		errs = append(errs, s.Close())
	}
	r.compute = nil
	if r.Residency != nil {
		errs = append(errs, r.Residency.Close())
		r.Residency = nil
	}
	if r.cause != nil {
		errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil || errors.Is(err, r.cause) })
	}
	return errors.Join(errs...)
}

// Busy is how long each device's compute stream has worked so far.
func (r *Runtime) Busy() []time.Duration {
	busy := make([]time.Duration, len(r.compute))
	for i, s := range r.compute {
		busy[i] = time.Duration(s.Busy())
	}
	return busy
}
