package berth

import (
	"errors"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/exchange"
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
	"github.com/berth-ml/berth/engine/onnx"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/train"
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

// The causes of errors of models from and for other programs.
var (
	ErrONNX      = onnx.ErrOp         // a layer that has no form in ONNX
	ErrONNXLarge = onnx.ErrLarge      // more weights than a file of ONNX has room for, 2 GiB
	ErrFitted    = exchange.ErrFitted // a file of weights that Import cannot make a run of
)

// The errors of Train that say more than their cause.
type (
	// DeviceError is returned by Train when a device was lost: it did not end an
	// operation in time, it reports its loss, or one of its operations failed.
	DeviceError = train.DeviceError
	// WeightsError is returned by Train when weights that it reads again in each step
	// cannot be read any more.
	WeightsError = train.WeightsError
	// OutputError is the error of a path that Train should not write to.
	OutputError = train.OutputError
)

// LongPromptError is a prompt that is longer than the context, without GenerateOptions.Slide.
type LongPromptError = answer.LongPromptError

// ErrBusy is returned by a Service whose queue is full: try again later.
var ErrBusy = errs.ErrBusy

// ErrClosed is returned by the methods of a closed Run, Trained, Training, Service, Devices or
// OpByOp.
var ErrClosed = errs.ErrClosed

// ErrInUse is returned within a call of the same Run or Trained, such as in an
// Observer's function: by Close and, on shared Devices, by Train, Eval and Predict.
// Close of Devices that a run uses returns it, too.
var ErrInUse = errs.ErrInUse

// ErrNoStep is returned by Run.TraceStep where no step can be traced: no training is under way, or it ended first.
var ErrNoStep = train.ErrNoStep

// ErrOccupied is returned by Serve with ServeOptions.AtOnce where others have the
// memory of shared Devices.
var ErrOccupied = residency.ErrOccupied

// ErrStopped is returned by Train when its time was up or its context was
// cancelled, then together with the context's error. The step under way was
// finished and saved. Before the first step there is nothing to save, and no
// report.
var ErrStopped = errs.ErrStopped

// ErrNonFinite is the cause when a run stops because its loss is NaN or
// infinite.
var ErrNonFinite = device.ErrNonFinite

// IsUsage reports whether an error is a mistake in a config or a call, and not a
// failure while following it.
func IsUsage(err error) bool {
	var weights *WeightsError
	if v, ok := errors.AsType[*crew.Verdict](err); ok {
		return v.Kind == crew.Mistake
	}
	switch {
	case errors.Is(err, checkpoint.ErrDamaged): // which may be why nothing was found
		return false
	case errors.As(err, &weights), errors.Is(err, safetensors.ErrChanged): // the file was good
		return false
	}
	for _, cause := range []error{
		graph.ErrShape, graph.ErrOp, models.ErrModel, optim.ErrSpec, datasets.ErrSpec, schedule.ErrInvalid, ranks.ErrLaunch, ranks.ErrLibrary,
		partition.ErrStages, partition.ErrReplicas, partition.ErrMemory, executor.ErrLaunches, device.ErrKind, device.ErrAbsent, device.ErrList, device.ErrBudget, fault.ErrFault, residency.ErrHostMemory, device.ErrEnvironment,
		configs.ErrInvalid, configs.ErrNotFound, checkpoint.ErrHeldHere, checkpoint.ErrNotFound, checkpoint.ErrTensors,
		pretrained.ErrFormat, pretrained.ErrFolder, rundir.ErrPick, osfile.ErrNotFile, osfile.ErrLink, hostfile.ErrNoFolder, ErrOptions, ErrData, ErrHasCheckpoint, ErrNoCheckpoint, ErrFolder, ErrChanged, ErrInit, ErrOutput, ErrClosed, ErrInUse, ErrONNX, ErrONNXLarge, ErrFitted,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// LossOf is the device whose failure an error is, such as one of [Trained.Serve], and what happened there. ok is false for other
// errors, also for losses that are not finite.
func LossOf(err error) (l LostDevice, ok bool) {
	if l.Device, ok = executor.LostDevice(err); ok {
		l.Cause = executor.Happened(err)
	}
	return l, ok
}
