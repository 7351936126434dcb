package train

import (
	"context"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/checkpoint/saver"
)

// Observer is told of a run's progress; nil functions are skipped. Calls come
// from the goroutine that trains, which waits for them. On shared devices, a
// function calls no method that uses the devices: one of the same run fails with
// errs.ErrInUse, and one of another run may wait for memory that this run keeps until the
// function returns. Start a goroutine for that, and do not wait for it.
type Observer struct {
	// Started is called before the first step, and before the run goes on after the
	// loss of a device.
	Started func(Start)
	// Step is called when a step has been queued.
	Step func(Step)
	// Logged is called for each logged step, once its loss came out of the device.
	Logged func(Step)
	// Watched is called with the mean loss of the newest steps, which came out before the
	// next boundary (train.watch).
	Watched func(Step)
	// Boundary is called at a boundary (train.boundary; by default an epoch's end),
	// after evaluation.
	Boundary func(Boundary)
	// Inspect is called at a boundary, after Boundary and the checkpoint there. It may
	// read variables, for which training waits. Its error ends the run, which is saved
	// first: Train returns it, and with ErrEnd the report alone.
	Inspect func(ctx context.Context, i *Inspection) error
	// InspectEvery asks for Inspect after each so many steps, too; 0: at boundaries only.
	InspectEvery int
	// Saved is called after a checkpoint.
	Saved func(Saved)
	// Note is called with a line that a user should read: "resuming at step 120".
	Note func(text string)
	// Warn is called with a line about something that is lost, though the run
	// goes on: a full disk has no room for metrics. Nil: Note is called.
	Warn func(text string)
}

// Start is how a run begins.
type Start struct {
	Epochs        int // of the run; 0: Steps was asked for
	StepsPerEpoch int
	Boundary      int // steps between boundaries; 0: they are the epochs' ends
	Steps         int // of the whole run
	Step          int // steps already taken: more than 0 after a resume
	Parameters    int64
	Trained       int64 // of Parameters, those that train: fewer with an adapter or optimizer.freeze
	Stages        int
	// TokensPerSample is the mean number of targets in a sample of text; 0 for others.
	TokensPerSample float64
}

// Step is one training step.
type Step = runstate.Step

// Boundary is the outcome of the steps between two boundaries, by default of an
// epoch. Metrics that do not exist, such as accuracy in regression, are nil.
type Boundary = runstate.Boundary

// Saved is a checkpoint that was written.
type Saved = saver.Saved

func (o *Observer) started(s Start) {
	if o != nil && o.Started != nil {
		o.Started(s)
	}
}

func (o *Observer) step(s Step) {
	if o != nil && o.Step != nil {
		o.Step(s)
	}
}

func (o *Observer) logged(s Step) {
	if o != nil && o.Logged != nil {
		o.Logged(s)
	}
}

func (o *Observer) watched(s Step) {
	if o != nil && o.Watched != nil {
		o.Watched(s)
	}
}

func (o *Observer) boundary(e Boundary) {
	if o != nil && o.Boundary != nil {
		o.Boundary(e)
	}
}

// inspects reports whether Inspect is called at all.
func (o *Observer) inspects() bool { return o != nil && o.Inspect != nil }

// inspectsAt reports whether Inspect is due after a step.
func (o *Observer) inspectsAt(step int, boundary bool) bool {
	return o.inspects() && (boundary || o.InspectEvery > 0 && step%o.InspectEvery == 0)
}

func (o *Observer) saved(s Saved) {
	if o != nil && o.Saved != nil {
		o.Saved(s)
	}
}

func (o *Observer) note(text string) {
	if o != nil && o.Note != nil {
		o.Note(text)
	}
}

func (o *Observer) warn(text string) {
	if o == nil || o.Warn == nil {
		o.note(text)
		return
	}
	o.Warn(text)
}
