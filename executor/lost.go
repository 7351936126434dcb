package executor

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// Happened says in one line which operation failed, where and why, and which task
// of a step needed it.
func Happened(err error) string {
	var hang *HangError
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
	var task *TaskError
	if errors.As(err, &task) {
		if task.Launched(on, what) {
			text = fmt.Sprintf("%s on %s", task.Task, on)
		} else {
			text += fmt.Sprintf(" (for %s)", task.Task)
		}
	}
	return text + " " + why
}

// TryingAgain says in one line that a copy failed and was repeated.
func TryingAgain(err error) string { return Happened(err) + "; trying again" }

// LostDevice is the device whose loss an error is. A loss that is not finite is
// the fault of no device.
func LostDevice(err error) (id device.ID, lost bool) {
	var hang *HangError
	var op *device.OpError
	var full *device.OutOfMemoryError
	var task *TaskError
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

// CauseOf is the operation whose failure is a device's loss, for all that use it.
func CauseOf(id device.ID, err error) error {
	var hang *HangError
	var op *device.OpError
	switch {
	case errors.As(err, &hang):
		return hang
	case errors.As(err, &op):
		return op
	}
	return &device.OpError{Device: id, What: "an operation", Err: device.ErrLost}
}

// Unrelated is an error without the parts that are about a lost device.
func Unrelated(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, err := range joined.Unwrap() {
			left = append(left, Unrelated(err))
		}
		return errors.Join(left...)
	}
	if _, lost := LostDevice(err); lost {
		return nil
	}
	return err
}
