package executor

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// The causes of errors other than a task's failure.
var (
	ErrBatch   = errors.New("batch does not fit the program")
	ErrOptions = errors.New("program cannot be loaded")
	ErrClosed  = errors.New("runtime is closed")
)

// TaskError is the failure of one task of a step.
type TaskError struct {
	Step       Ticket
	Task       string // "s1.F3"
	Device     device.ID
	Microbatch int
	Err        error
}

// Error names task and device.
func (e *TaskError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Task, e.Device, e.Err) }

// Unwrap is the cause.
func (e *TaskError) Unwrap() error { return e.Err }
