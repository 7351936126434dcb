package train

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/internal/errs"
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
	text := executor.Happened(e.Err)
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

// WeightsError is returned by Train when weights that it reads again in each step
// cannot be read any more. A resumed run reads them from its checkpoints, and not
// from the file of Options.Init.
type WeightsError struct {
	Saved int // the step of the newest checkpoint; 0: there is none
	Err   error
}

// Error names the file, and says where the run can go on from.
func (e *WeightsError) Error() string {
	return fmt.Sprintf("the initial weights cannot be read again: %v; %s", e.Err, newestCheckpoint(e.Saved))
}

// Unwrap is the cause.
func (e *WeightsError) Unwrap() error { return e.Err }

// OutputError is the error of a path that training should not write to.
type OutputError struct {
	Option string // the field of Options that names it: "Report" or "Dump"
	Err    error
}

// outputError makes an OutputError of a text.
func outputError(option, format string, args ...any) error {
	return &OutputError{option, fmt.Errorf(format, args...)}
}

// Error names the option, and says what to do.
func (e *OutputError) Error() string { return "TrainOptions." + e.Option + ": " + e.Err.Error() }

// Unwrap is the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// beforeFirstStep turns the error of a ctx that has ended into errs.ErrStopped.
func beforeFirstStep(ctx context.Context, err error) error {
	if cause := errs.Ended(ctx, err); cause != nil {
		return errs.With(fmt.Errorf("%w before the first step: %w", errs.ErrStopped, cause), cause)
	}
	return err
}
