package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/partition"
)

// The causes of errors about what was asked for.
var (
	ErrOptions       = errors.New("these options do not go together")
	ErrData          = errors.New("the data cannot be used")
	ErrHasCheckpoint = rundir.ErrHasCheckpoint
	ErrNoCheckpoint  = rundir.ErrNoCheckpoint
	ErrFolder        = rundir.ErrFolder
	ErrOutput        = rundir.ErrOutput
	ErrChanged       = initial.ErrChanged
	ErrInit          = initial.ErrInit
)

// ErrClosed is returned by the methods of a closed Run.
var ErrClosed = errors.New("the run is closed")

// ErrStopped is returned by Train when its context was cancelled, along with
// the context's error, or its time was up: the step under way was finished and
// saved. Before the first step there is nothing to save, and no report.
var ErrStopped = errors.New("stopped")

// stoppedError is ErrStopped that also is what ended the context.
type stoppedError struct {
	error
	cause error
}

func (e *stoppedError) Unwrap() []error { return []error{e.error, e.cause} }

// beforeFirstStep is ErrStopped where an error is that ctx has ended.
func beforeFirstStep(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		return &stoppedError{fmt.Errorf("%w before the first step", ErrStopped), cause}
	}
	return err
}

// ErrNonFinite is the cause when a run stops because its loss is NaN or
// infinite.
var ErrNonFinite = device.ErrNonFinite

// IsUsage reports whether an error is about what was asked for, in a config or
// a call, and not about what happened while doing it.
func IsUsage(err error) bool {
	if errors.Is(err, checkpoint.ErrDamaged) { // which may be why nothing was found
		return false
	}
	for _, cause := range []error{
		graph.ErrShape, models.ErrModel, optim.ErrSpec, datasets.ErrSpec,
		partition.ErrStages, partition.ErrMemory, device.ErrKind, device.ErrList, device.ErrEnvironment,
		configs.ErrInvalid, configs.ErrNotFound, checkpoint.ErrNotFound,
		rundir.ErrPick, ErrOptions, ErrData, ErrHasCheckpoint, ErrNoCheckpoint, ErrFolder, ErrChanged, ErrInit, ErrOutput,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
