package berth

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/executor/train"
)

// TrainOptions says how to train, beyond the config.
type TrainOptions = train.Options

// Training is a run whose steps the program takes one by one: between those of other
// runs, or in an order of its own. [Run.Train] takes the same steps: weights, metrics,
// checkpoints and resuming are the same.
//
//	t, err := run.Start(ctx, berth.TrainOptions{Dir: "runs/mine"})
//	…
//	defer t.Close()
//	for t.More() {
//		if err := t.Step(ctx); err != nil { … }
//	}
//	report, err := t.Finish(ctx)
//
// After a step that fails, Close is left, and the run can be resumed from its newest
// checkpoint. One goroutine uses a Training at a time. While the run is suspended ([Run.Suspend]), Step and
// the methods that compute something wait, until their context ends; the others work.
type Training struct{ training *train.Training }

// Batch is the samples of a step, in the memory from which the device copies them. They
// may be overwritten before the step, such as with the outputs of another model.
type Batch = train.Batch

// Steps is the number of steps that the run has queued, also before this call. After an
// error of a step, those from the one that the error names on have changed no weights.
func (t *Training) Steps() int {
	if t.checkOpened() != nil {
		return 0
	}
	return t.training.Steps()
}

// More reports whether a step is left to take, and time for it: until the config's
// length, MaxSteps, MaxTime, early stopping, or a function Inspect that returned ErrEnd.
func (t *Training) More() bool { return t.checkOpened() == nil && t.training.More() }

// Next waits for the samples of the next step: those that Step takes then. They may be
// overwritten until Step. It is not needed before Step. io.EOF says that no step is left.
func (t *Training) Next(ctx context.Context) (*Batch, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t.training.Next(ctx)
}

// Step queues a step; it runs while the program goes on. After it, a boundary, a log, a
// checkpoint and Observer.Inspect come where the config and the observer ask for them.
// It fails with io.EOF where no step is left, and with ctx's cause, before the step, where
// ctx has ended. Where ctx ends while the evaluation of a boundary is suspended, the step is taken, and
// the next one begins with that evaluation.
func (t *Training) Step(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	return t.training.Step(ctx)
}

// Fetch waits for the steps so far, and copies a variable out, as [Inspection.Fetch]
// does.
func (t *Training) Fetch(ctx context.Context, name string) (*tensor.Dense, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t.training.Fetch(ctx, name)
}

// Shares names the other runs and services on shared [Devices] that have the weights beside which the run trains an
// adapter (adapt.lora), and says how many bytes these take there, once for all. There are none without an adapter.
func (t *Training) Shares() (with []string, bytes int64) {
	if t.checkOpened() != nil || t.training.CheckOpen() != nil {
		return nil, 0
	}
	return t.training.Shares()
}

// Replace waits for the steps so far, and gives a variable other contents, such as those
// of another model, which are copied in at once. value has the variable's elements, in
// any shape. Weights beside which an adapter is trained are refused.
func (t *Training) Replace(ctx context.Context, name string, value *tensor.Dense) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	return t.training.Replace(ctx, name, value)
}

// CopyFrom replaces variables by those of the same names of another training, through
// the host. Without names, these are the parameters that both have, but for those that Replace refuses.
func (t *Training) CopyFrom(ctx context.Context, other *Training, names ...string) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	if err := other.check(ctx); err != nil {
		return fmt.Errorf("the training to copy from: %w", err)
	}
	return t.training.CopyFrom(ctx, other.training, names...)
}

// Predict waits for the steps so far, and computes the model's outputs for samples, a
// tensor of [n, …], with the weights of now, or their averages by train.ema: [n, outputs], and [n, positions, outputs] of
// a sequence. Samples are as in Batch.Input. Outputs of a classifier are probabilities.
func (t *Training) Predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t.training.Predict(ctx, samples)
}

// Activations waits for the steps so far, and computes the outputs of a layer for
// samples, as [Inspection.Activations] does. nil means the samples of the last step, as
// the data has them, and is refused before the first.
func (t *Training) Activations(ctx context.Context, layer string, samples *tensor.Dense) (*tensor.Dense, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t.training.Activations(ctx, layer, samples)
}

// Save waits for the steps so far, and takes a checkpoint of them. It is on the disk
// when Save returns.
func (t *Training) Save(ctx context.Context) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	return t.training.Save(ctx)
}

// Finish waits for the steps so far, saves, and returns the report. A run that has steps
// left can be resumed. Where ctx has ended, it saves all the same, and takes no evaluation for which the run would
// have to wait while it is suspended.
func (t *Training) Finish(ctx context.Context) (*Report, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t.training.Finish(ctx)
}

// Close gives back all that the training holds. It saves nothing: see Finish. A nil or
// closed Training holds nothing.
func (t *Training) Close() error {
	if t.checkOpened() != nil {
		return nil
	}
	return t.training.Close()
}
