package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/hostfile"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// The causes of errors about a config or a call.
var (
	ErrOptions = errs.ErrOptions // alone, or not with each other
	ErrData    = errs.ErrData
	ErrInit    = initial.ErrInit    // a file of weights, or its fit to the model
	ErrChanged = initial.ErrChanged // a checkpoint of another config, model or data

	ErrHasCheckpoint = rundir.ErrHasCheckpoint // a run that is to begin finds another's
	ErrNoCheckpoint  = rundir.ErrNoCheckpoint  // a run that is to go on finds none
	ErrFolder        = rundir.ErrFolder        // a run would replace files of the folder
	ErrOutput        = rundir.ErrOutput        // a file must not be written to
)

// OutputError is the error of a path that Train should not write to.
type OutputError struct {
	Option string // the field of TrainOptions that names it: "Report" or "Dump"
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

// ErrClosed is returned by the methods of a closed Run, Trained or Devices.
var ErrClosed = errs.ErrClosed

// ErrInUse is returned within a call of the same Run or Trained, such as in an
// Observer's function: by Close and, on shared Devices, by Train, Eval and Predict.
// Close of Devices that a run uses returns it, too.
var ErrInUse = errs.ErrInUse

// ErrOccupied is returned by Serve with ServeOptions.AtOnce where others have the
// memory of shared Devices.
var ErrOccupied = residency.ErrOccupied

// heldError is the ErrInUse of devices that a run or a context of ops uses.
type heldError struct{ by string }

func (e heldError) Error() string {
	return fmt.Sprintf("the devices are used by %q: close it first, or wait until its methods have returned", e.by)
}

func (e heldError) Unwrap() error { return ErrInUse }

// ErrStopped is returned by Train when its time was up or its context was
// cancelled, then together with the context's error. The step under way was
// finished and saved. Before the first step there is nothing to save, and no
// report.
var ErrStopped = errs.ErrStopped

// beforeFirstStep turns the error of a ctx that has ended into ErrStopped.
func beforeFirstStep(ctx context.Context, err error) error {
	if cause := errs.Ended(ctx, err); cause != nil {
		return errs.With(fmt.Errorf("%w before the first step: %w", ErrStopped, cause), cause)
	}
	return err
}

// ErrNonFinite is the cause when a run stops because its loss is NaN or
// infinite.
var ErrNonFinite = device.ErrNonFinite

// IsUsage reports whether an error is a mistake in a config or a call, and not a
// failure while following it.
func IsUsage(err error) bool {
	var weights *WeightsError
	switch {
	case errors.Is(err, checkpoint.ErrDamaged): // which may be why nothing was found
		return false
	case errors.As(err, &weights), errors.Is(err, safetensors.ErrChanged): // the file was good
		return false
	}
	for _, cause := range []error{
		graph.ErrShape, graph.ErrOp, models.ErrModel, optim.ErrSpec, datasets.ErrSpec, schedule.ErrInvalid,
		partition.ErrStages, partition.ErrReplicas, partition.ErrMemory, executor.ErrLaunches, device.ErrKind, device.ErrAbsent, device.ErrList, device.ErrBudget, fault.ErrFault, residency.ErrHostMemory, device.ErrEnvironment,
		configs.ErrInvalid, configs.ErrNotFound, checkpoint.ErrHeldHere, checkpoint.ErrNotFound, checkpoint.ErrTensors,
		pretrained.ErrFormat, pretrained.ErrFolder, rundir.ErrPick, osfile.ErrNotFile, osfile.ErrLink, hostfile.ErrNoFolder, ErrOptions, ErrData, ErrHasCheckpoint, ErrNoCheckpoint, ErrFolder, ErrChanged, ErrInit, ErrOutput, ErrClosed, ErrInUse,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// at puts a place, where it is known, before a mistake.
func at(p configs.Pos, err error) error {
	if p == (configs.Pos{}) {
		return err
	}
	return &placedError{p, err}
}

// placedError is a mistake with its place in the config.
type placedError struct {
	at  configs.Pos
	err error
}

func (e *placedError) Error() string { return fmt.Sprintf("%s: %v", e.at, e.err) }

func (e *placedError) Unwrap() error { return e.err }

// stopOf is the cause of ctx's end, once it has ended.
func stopOf(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}
