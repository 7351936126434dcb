package berth

import (
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/executor/train"
)

// What an Observer is told, and when: see [train.Observer].
type (
	// Observer is told of a run's progress; nil functions are skipped. Calls come
	// from the goroutine that trains, which waits for them.
	Observer = train.Observer
	// Start is how a run begins.
	Start = train.Start
	// Step is one training step.
	Step = train.Step
	// Boundary is the outcome of the steps between two boundaries, by default of an
	// epoch. Metrics that do not exist, such as accuracy in regression, are nil.
	Boundary = runstate.Boundary
	// Saved is a checkpoint that was written.
	Saved = train.Saved
	// Inspection is a run between two steps, for Observer.Inspect. It fetches variables and
	// the outputs of layers.
	Inspection = train.Inspection
)

// ErrEnd is the error with which Observer.Inspect ends a run well: Train saves, and
// returns the report. The run may be resumed.
var ErrEnd = train.ErrEnd
