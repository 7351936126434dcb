package berth

import "fmt"

// WeightsError is returned by Train when weights that it reads again in each step
// cannot be read any more. A resumed run reads them from its checkpoints, and not
// from the file of TrainOptions.Init.
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
