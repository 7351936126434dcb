package berth

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
)

// DeviceError is returned by Train when a device was lost: it did not end an
// operation in time, it reports its loss, or one of its operations failed.
type DeviceError struct {
	Device device.ID
	Step   int // the step that failed, from 1; 0: it was before the first one, or between two
	Saved  int // the step of the newest checkpoint; 0: there is none
	Err    error
}

// Error says what failed, and where the run can go on from.
func (e *DeviceError) Error() string {
	text := happened(e.Err)
	if e.Step > 0 {
		text = fmt.Sprintf("step %d: %s", e.Step, text)
	}
	return text + "; " + newestCheckpoint(e.Saved)
}

// newestCheckpoint says up to which step a run that failed is saved; 0: none is.
func newestCheckpoint(step int) string {
	if step == 0 {
		return "nothing was saved"
	}
	return fmt.Sprintf("the newest checkpoint is of step %d", step)
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
		if task.Launched(on, what) {
			text = fmt.Sprintf("%s on %s", task.Task, on)
		} else {
			text += fmt.Sprintf(" (for %s)", task.Task)
		}
	}
	return text + " " + why
}

// tryingAgain says in one line that a copy failed and was repeated.
func tryingAgain(err error) string { return happened(err) + "; trying again" }

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

// causeOf is the operation whose failure is a device's loss, for all that use it.
func causeOf(id device.ID, err error) error {
	var hang *executor.HangError
	var op *device.OpError
	switch {
	case errors.As(err, &hang):
		return hang
	case errors.As(err, &op):
		return op
	}
	return &device.OpError{Device: id, What: "an operation", Err: device.ErrLost}
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
