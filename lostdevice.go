package berth

import (
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
