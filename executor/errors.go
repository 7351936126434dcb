package executor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/schedule"
)

// The causes of errors other than a task's failure.
var (
	ErrBatch   = errors.New("batch does not fit the program")
	ErrOptions = errors.New("the plan cannot be loaded as a program")
	ErrClosed  = errors.New("runtime or program is closed")

	// ErrHalf: variables are at the ends of different steps.
	ErrHalf = errors.New("the step updated only some of the variables, so training cannot go on from them")

	// ErrLaunches: the host has no memory for a step of so many launches.
	ErrLaunches = errors.New("too many launches")
)

// TaskError is the failure of one task of a step.
type TaskError struct {
	Net        string // LoadOptions.Net of its program
	Step       Ticket
	Task       string // "s1.F3"
	Device     device.ID
	Microbatch int
	Action     schedule.Action   // of Schedule
	Schedule   schedule.Schedule // of the step
	Err        error

	launch string // the name of its launch in spans and in a device's errors
}

// Error names task and device.
func (e *TaskError) Error() string {
	why := ": " + strings.TrimPrefix(e.Err.Error(), string(e.Device)+": ")
	var op *device.OpError
	var hang *HangError
	switch { // the task's own launch need not be named again
	case errors.As(e.Err, &hang) && e.Launched(hang.Device, hang.Command.What):
		why = " " + hang.Reason()
	case errors.As(e.Err, &op) && e.Launched(op.Device, op.What):
		why = ": " + op.Err.Error()
	}
	return fmt.Sprintf("%s on %s%s", e.Task, e.Device, why)
}

// Launched reports whether an operation of a device is the task's own launch. A
// device names it after the segment: "s1.F" for "s1.F3".
func (e *TaskError) Launched(on device.ID, what string) bool {
	return on == e.Device && what == e.launch
}

// gridColumns bounds the width of a grid.
const gridColumns = 24

// Grid shows the schedule about the task's action, whose cell is in brackets.
func (e *TaskError) Grid() string { return e.Schedule.Around(e.Action, gridColumns) }

// Unwrap is the cause.
func (e *TaskError) Unwrap() error { return e.Err }

// HangError is the failure of a device that was given up, since an operation did
// not end. It is a [device.ErrLost].
type HangError struct {
	Device  device.ID
	Command device.Command // the operation
	Timeout time.Duration
	Setting string // what users raise Timeout with; empty: nothing
	// Stopping says that Timeout counts from the close of WatchOptions.Stop, which came
	// after the operation began.
	Stopping bool
}

// Error names the operation, and how long it had run.
func (e *HangError) Error() string {
	return fmt.Sprintf("%s on %s %s", e.Command.What, e.Device, e.Reason())
}

// Reason says how long the operation had run, and what to do.
func (e *HangError) Reason() string {
	if e.Stopping {
		return fmt.Sprintf("has not ended %v after the run was to end", e.Timeout)
	}
	if e.Setting == "" {
		return fmt.Sprintf("has not ended after %v", e.Timeout)
	}
	return fmt.Sprintf("has not ended after %v; if it is only slow, raise %s", e.Timeout, e.Setting)
}

// Unwrap is device.ErrLost.
func (e *HangError) Unwrap() error { return device.ErrLost }

// Happened says in one line which operation failed, where and why, and which task
// of a step needed it.
func Happened(err error) string {
	if plain, ok := errors.AsType[*plainError](err); ok {
		return plain.Error()
	}
	return happened(err, false)
}

// plainError is the failure of a device in words for those who see no tasks.
type plainError struct{ error }

// Plain is the failure of a device of a model that answers requests, in the words of Happened but for the names of tasks, which
// nobody sees there. Other errors stay as they are.
func Plain(err error) error {
	_, already := errors.AsType[*plainError](err)
	if _, lost := LostDevice(err); already || !lost {
		return err
	}
	return &plainError{err}
}

func (e *plainError) Error() string { return happened(e.error, true) }
func (e *plainError) Unwrap() error { return e.error }

// happened is Happened, with plain without the names of tasks.
func happened(err error, plain bool) string {
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
		switch launched := task.Launched(on, what); {
		case launched && plain: // models that answer have no other
			text = fmt.Sprintf("the forward pass on %s", on)
		case launched:
			text = fmt.Sprintf("%s on %s", task.Task, on)
		case !plain:
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
