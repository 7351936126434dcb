package berth

import (
	"fmt"

	_ "github.com/berth-ml/berth/engine/device/cpu"    // registers itself
	_ "github.com/berth-ml/berth/engine/device/gpu/cl" // registers itself
	_ "github.com/berth-ml/berth/engine/device/null"   // registers itself

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/session"
)

// Devices are opened devices on which several models are trained and used at once,
// each from a goroutine of its own. Their weights share the memory: those of a
// model that does nothing give way to another's, and come back. Each model ends
// with the weights that it has alone, and what fails in one fails no other one. The
// methods are safe for concurrent use.
//
// Of the section devices of a run's config, memory alone counts: that much of each device its
// plan counts on; without it, the whole device. The other keys, such as use, each, threads,
// host_memory and timeout, are those of OpenDevices. [Run.Train] and the other calls wait
// until the devices have the floor of the run's plan free beside those of the other calls:
// of the calls that wait, the first one goes on first. ctx ends the waiting. A run has one
// call at a time; a second one fails with ErrInUse.
//
// A device that is lost is lost for all runs that use it, and runs to be opened plan
// with those that are left. A run goes on without it if devices.on_device_loss is
// replan in its config, or in that of OpenDevices. A device one of whose operations
// failed goes on with the other runs.
type Devices struct{ pool *session.Pool }

// OpenDevices opens the devices of a config, for several runs. A zero field means the
// key's default: configs.Devices{Use: "cpu:2"} is whole. The caller closes the devices
// after the runs. The faults make operations go wrong, for tests; they count the
// operations of all runs together.
func OpenDevices(c configs.Devices, faults ...fault.Fault) (*Devices, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	if session.ByPercentage(c) {
		return nil, fmt.Errorf("%w: devices.memory is a percentage of what one plan takes: give bytes for devices that several runs share", ErrOptions)
	}
	if err := session.CheckSpillDir(c, c.Pos); err != nil {
		return nil, err
	}
	p, err := session.OpenPool(c, func(list []device.Device) ([]device.Device, error) { return fault.Wrap(list, faults) })
	if err != nil {
		return nil, err
	}
	return &Devices{p}, nil
}

// Reopen opens the same devices anew, once Close has been called. Their faults count
// operations on, so those that have not happened may happen yet. The caller closes them.
func (d *Devices) Reopen() (*Devices, error) {
	if err := d.checkOpened(); err != nil {
		return nil, err
	}
	p, err := d.pool.Reopen()
	if err != nil {
		return nil, err
	}
	return &Devices{p}, nil
}

// Missed says of each fault that did not happen how many such operations there were.
func (d *Devices) Missed() []string {
	if d.checkOpened() != nil {
		return nil
	}
	return d.pool.Missed()
}

// share is a run's part of the devices: those of its OpenOptions.Use. A nil d has none.
func (d *Devices) share(use []device.ID) (*session.Share, error) {
	switch {
	case d == nil && use != nil:
		return nil, fmt.Errorf("%w: Use names some of the shared Devices, and none are given", ErrOptions)
	case d == nil:
		return nil, nil
	}
	if err := d.checkOpened(); err != nil {
		return nil, err
	}
	return d.pool.Share(use)
}

// Close closes the devices. It fails if anything on them was not freed, and with
// ErrInUse while a call of a run uses them. Nil or closed Devices have none.
func (d *Devices) Close() error {
	if d.checkOpened() != nil {
		return nil
	}
	return d.pool.Close()
}
