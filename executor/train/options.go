package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/errs"
)

// Options say how to train, beyond the config.
type Options struct {
	// Dir is the run folder: config.yaml, metrics.jsonl, checkpoints.db and
	// report.json. It is made where it is missing.
	Dir string
	// Resume continues from the newest whole checkpoint in Dir; Fresh begins
	// anew and forgets what Dir holds. With neither, a Dir that holds a
	// checkpoint is an error.
	Resume, Fresh bool
	// Init names a safetensors file with the parameters' first values by name:
	// FILE[:PREFIX], or {file: FILE, skip: [head.*]}. Without a prefix, that of most
	// names in the file is found.
	Init string
	// MaxSteps ends the run, saved, after that many steps since its beginning;
	// 0 means the config's length. The learning rate's schedule ignores it.
	MaxSteps int
	// MaxTime ends the call, saved, before it has taken that long, as far as
	// the time of a step and of a save can be foreseen; 0 means no limit. Time for which the
	// run is suspended counts. The
	// error is errs.ErrStopped where the run was not complete by then.
	MaxTime time.Duration
	// Began is when MaxTime begins to count; zero: with the call.
	Began time.Time
	// SaveNow asks for a checkpoint after the step that is under way, for each
	// value received; nil for never.
	SaveNow <-chan struct{}
	// AllowChanged resumes although the config, the data or the kernels of the
	// devices are not those that the checkpoint was made with, and says what
	// changed. Weights must still fit.
	AllowChanged bool
	// AssertResident fails the run if between epoch boundaries anything but
	// the batch is copied in, or anything comes out that was not asked for. On a
	// device with less memory than the plan takes, or than the plans of all who
	// share it, tensors may leave and come back.
	AssertResident bool
	// Dump is a folder for the run's graph, plan, schedule, ledger and trace.
	// Empty means none.
	Dump string
	// Faults make operations of the devices go wrong, for tests and drills. They
	// count operations from the beginning of the call. On shared Devices they are
	// errs.ErrOptions: give them to OpenDevices.
	Faults []fault.Fault
	// Report is a further file that the report is written to.
	Report string
	// Observer is told of the run; nil for nobody.
	Observer *Observer
}

// InTime is ctx, which ends once MaxTime is over. The caller calls cancel.
func (o Options) InTime(ctx context.Context) (limited context.Context, cancel func()) {
	if o.MaxTime <= 0 {
		return ctx, func() {}
	}
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	return context.WithDeadlineCause(ctx, o.Began.Add(o.MaxTime), timeUp(o.MaxTime))
}

// begun are the options of a call that begins now, with the paths that its folders really have.
func (o Options) begun() Options {
	if o.Began.IsZero() {
		o.Began = time.Now()
	}
	o.Dir, o.Dump = osfile.Resolve(o.Dir), osfile.Resolve(o.Dump)
	return o
}

// timeUp is the cause of a context that a MaxTime ended. It wraps
// context.DeadlineExceeded.
type timeUp time.Duration

func (t timeUp) Error() string {
	return fmt.Sprintf("the time of %v was over", time.Duration(t))
}

func (t timeUp) Unwrap() error { return context.DeadlineExceeded }

// check refuses options that exclude each other.
func (o Options) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("%w: no run folder is given: set TrainOptions.Dir", errs.ErrOptions)
	case o.Resume && o.Fresh:
		return fmt.Errorf("%w: Resume and Fresh exclude each other: set one", errs.ErrOptions)
	case o.Resume && o.Init != "":
		return fmt.Errorf("%w: a resumed run takes its weights from the checkpoint, not from %s", errs.ErrOptions, o.Init)
	case o.MaxSteps < 0 || o.MaxTime < 0:
		return fmt.Errorf("%w: MaxSteps is %d and MaxTime %v: give 0 for no limit, or a number above 0", errs.ErrOptions, o.MaxSteps, o.MaxTime)
	}
	return nil
}

// checkOutputs refuses paths that the report and the dump should not be written
// to; inputs are those of the run.
func (o Options) checkOutputs(inputs []string) error {
	if o.Report != "" && !rundir.SameFile(o.Report, filepath.Join(o.Dir, rundir.ReportName)) {
		if err := rundir.CheckOutput(o.Report, o.Dir, inputs...); err != nil {
			return &OutputError{"Report", err}
		}
	}
	return o.checkDump()
}

// checkDump refuses a folder that the dump should not be written to.
func (o Options) checkDump() error {
	if st, err := os.Stat(o.Dump); o.Dump == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return &OutputError{"Dump", err}
	} else if err != nil || !st.IsDir() {
		return outputError("Dump", "%s: %w: there is a file of that name; name another folder", o.Dump, rundir.ErrOutput)
	}
	if _, err := os.Stat(rundir.CheckpointPath(o.Dump)); err == nil && !rundir.SameFile(o.Dump, o.Dir) {
		return outputError("Dump", "%s: %w: it is the folder of another run; name a folder of its own", o.Dump, rundir.ErrOutput)
	}
	if path := trace.Foreign(o.Dump); path != "" {
		return outputError("Dump", "%s: %w: the dump would replace this file, which no dump wrote; name another folder, or move the file", path, rundir.ErrOutput)
	}
	return nil
}

// makeDump makes the dump's folder, which may be one that no option names.
func (o Options) makeDump() error {
	if err := os.MkdirAll(o.Dump, 0o777); err != nil {
		return &OutputError{"Dump", err}
	}
	return o.checkDump()
}

// mode is what becomes of the run folder's contents.
func (o Options) mode() rundir.Mode {
	switch {
	case o.Fresh:
		return rundir.Fresh
	case o.Resume:
		return rundir.Resume
	}
	return rundir.Begin
}
