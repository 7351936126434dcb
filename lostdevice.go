package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
)

// DeviceError is returned by Train when a device was lost: it did not end an
// operation in time, it reports its loss, or one of its operations failed.
type DeviceError struct {
	Device device.ID
	Step   int // the step that failed, from 1; 0: none had begun
	Saved  int // the step of the newest checkpoint; 0: there is none
	Err    error
}

// Error says what failed, and where the run can go on from.
func (e *DeviceError) Error() string {
	text := happened(e.Err)
	if e.Step > 0 {
		text = fmt.Sprintf("step %d: %s", e.Step, text)
	}
	if e.Saved == 0 {
		return text + "; nothing was saved"
	}
	return fmt.Sprintf("%s; the newest checkpoint is of step %d", text, e.Saved)
}

// Unwrap is the cause.
func (e *DeviceError) Unwrap() error { return e.Err }

// happened says in one line which operation failed, where and why, and which task
// of a step needed it.
func happened(err error) string {
	var hang *executor.HangError
	var op *device.OpError
	var what, why string
	var on device.ID
	switch {
	case errors.As(err, &hang):
		what, on, why = hang.Command.What, hang.Device, hang.Reason()
	case errors.As(err, &op):
		what, on, why = op.What, op.Device, fmt.Sprintf("failed: %v", op.Err)
	default:
		return err.Error()
	}
	text := fmt.Sprintf("%s on %s", what, on)
	var task *executor.TaskError
	if errors.As(err, &task) {
		if task.Device == on && strings.HasPrefix(task.Task, what) {
			text = fmt.Sprintf("%s on %s", task.Task, on)
		} else {
			text += fmt.Sprintf(" (for %s)", task.Task)
		}
	}
	return text + " " + why
}

// lostDevice is the device whose loss an error is. A loss that is not finite is
// the fault of no device.
func lostDevice(err error) (id device.ID, lost bool) {
	var hang *executor.HangError
	var op *device.OpError
	var full *device.OutOfMemoryError
	var task *executor.TaskError
	switch {
	case errors.Is(err, device.ErrNonFinite):
		return "", false
	case errors.As(err, &hang):
		return hang.Device, true
	case errors.As(err, &op):
		return op.Device, true
	case errors.As(err, &full):
		return full.Device, true
	case errors.Is(err, device.ErrLost) && errors.As(err, &task):
		return task.Device, true
	}
	return "", false
}

// unrelated is an error without the parts that are about a lost device.
func unrelated(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, err := range joined.Unwrap() {
			left = append(left, unrelated(err))
		}
		return errors.Join(left...)
	}
	if _, lost := lostDevice(err); lost {
		return nil
	}
	return err
}

// attempts are the sessions of one call of Train. The first is the only one,
// unless devices are lost and the config asks to go on without them.
type attempts struct {
	run     *Run
	opt     TrainOptions
	devices []device.Device // those of the run, in its order; nil before the first session
	all     []device.Device // with those that were lost
	losses  []DeviceLoss
}

// train trains until the run ends, or there is no going on.
func (a *attempts) train(ctx context.Context) (*Report, error) {
	for {
		s := newSession(a)
		rep, err := s.whole(ctx, a.run)
		if a.all == nil {
			a.all = s.devices
		}
		if err == nil || errors.Is(err, ErrStopped) {
			for _, text := range fault.Missed(a.all) {
				a.opt.Observer.warn(text)
			}
		}
		var lost *DeviceError
		if !errors.As(err, &lost) || a.run.Config.Devices.OnLoss != configs.OnLossReplan || a.run.setup.shared != nil || ctx.Err() != nil {
			return rep, err
		}
		if err := a.without(ctx, s, lost); err != nil {
			return nil, err
		}
	}
}

// without plans again for the devices that are left.
func (a *attempts) without(ctx context.Context, s *session, lost *DeviceError) error {
	devs := a.run.setup.devs
	i := slices.IndexFunc(devs, func(d device.Device) bool { return d.ID() == lost.Device })
	if i < 0 {
		return lost
	}
	if err := unrelated(devs[i].Close()); err != nil {
		return errors.Join(lost, err)
	}
	a.run.setup.devs, a.devices = slices.Delete(slices.Clone(devs), i, i+1), slices.Delete(slices.Clone(s.devices), i, i+1)
	a.losses = append(a.losses, DeviceLoss{
		Device: lost.Device, Step: lost.Step, Resumed: lost.Saved, Again: max(0, s.done-lost.Saved), Cause: happened(lost.Err),
	})
	if len(a.devices) == 0 {
		return fmt.Errorf("%w; no device is left to go on with", lost)
	}
	if err := a.run.plan(ctx); err != nil {
		// Its cause is not wrapped: the config was right for the devices that there were.
		return errors.Join(fmt.Errorf("%w; the devices that are left cannot take over: %v", lost, err), a.run.setup.closeDevices())
	}
	if lost.Saved > 0 {
		a.opt.Resume, a.opt.Fresh, a.opt.Init = true, false, ""
	}
	a.opt.Observer.warn(fmt.Sprintf("%v; going on without %s", lost, lost.Device))
	return nil
}
