package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/internal/edit"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency/ledger"
)

// ErrEnd is the error with which [Observer.Inspect] ends a run well: Train saves, and
// returns the report. The run may be resumed.
var ErrEnd = errors.New("the observer ends the run")

// Inspection is a run between two steps, for [Observer.Inspect]. It is valid until that
// returns.
type Inspection struct {
	Step         int // taken so far
	Epoch        int // of the last step, from 0
	InEpoch      int // the last step's number in its epoch, from 1
	LearningRate float64
	Loss         float64  // of the last step
	GradNorm     *float64 // of the last step; nil where it is not computed, or not finite
	// Boundary has the metrics, at a boundary; elsewhere it is nil.
	Boundary *Boundary

	a *attempt // nil: it is not valid any more
}

// check refuses an Inspection that is over, and a nil context.
func (i *Inspection) check(ctx context.Context) error {
	if i == nil || i.a == nil {
		return fmt.Errorf("%w: an Inspection is valid until Observer.Inspect returns", errs.ErrClosed)
	}
	return errs.CheckContext(ctx)
}

// Fetch copies a variable out of the device: a parameter, a statistic of a layer or a
// part of the optimizer's state, by the name that `trainer checkpoints inspect` prints.
// The ledger counts the bytes as fetch.
func (i *Inspection) Fetch(ctx context.Context, name string) (*tensor.Dense, error) {
	if err := i.check(ctx); err != nil {
		return nil, err
	}
	return i.a.fetch(ctx, name)
}

// Activations computes the outputs of a layer for samples, a tensor of [n, …], with the
// weights of now and as an evaluation does: nothing is dropped. nil means the samples of
// the last step, as the data has them. A sample is one sequence, also where conversations
// share it. Samples are as in Batch.Input. Layers have the names that `trainer plan --layers`
// prints. The ledger counts the bytes as fetch.
func (i *Inspection) Activations(ctx context.Context, layer string, samples *tensor.Dense) (*tensor.Dense, error) {
	if err := i.check(ctx); err != nil {
		return nil, err
	}
	return i.a.activations(ctx, layer, samples)
}

// lastSamples reads the samples of the last step once more.
func (a *attempt) lastSamples() (b answer.Batch, err error) {
	if a.at.Step == 0 {
		return b, fmt.Errorf("%w: there is no last step whose samples could be used: pass samples", errs.ErrOptions)
	}
	epoch, inEpoch := a.at.PlaceOf(a.at.Step, a.session.Sizes.Pace)
	from := datasets.Cursor{Epoch: epoch, Index: (inEpoch - 1) * a.session.Sizes.Batch}
	dst := a.part.Alloc(a.session.Sizes.Batch)
	n, err := a.part.Read(from, a.session.Sizes.Batch, dst)
	if err != nil {
		return b, specs.BadData(err)
	}
	m := a.part.Shapes(a.part.Bucket(from))[0].Meta
	if a.session.Spec.Lengths {
		n -= a.part.Empty(from, n)
		datasets.PadInputs(m, dst[0], dst[1][:4*n])
	}
	m.Shape = append([]int{n}, m.Shape...)
	return a.answers().Model.Check(m, dst[0][:m.Bytes()])
}

// predict computes the model's outputs with the weights of now. No step is queued.
func (a *attempt) predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	boundary.Unseal(a.rt.Residency)
	defer a.seal()
	b, err := answer.BatchOf(&a.answers().Model, samples)
	if err != nil {
		return nil, err
	}
	return answer.TensorOf(a.answers().Outputs(ctx, b))
}

// activations computes a layer's outputs; without samples, for those of the last step.
// No step is queued.
func (a *attempt) activations(ctx context.Context, layer string, samples *tensor.Dense) (*tensor.Dense, error) {
	var b answer.Batch
	var err error
	if samples == nil {
		b, err = a.lastSamples()
	} else {
		b, err = answer.BatchOf(&a.answers().Model, samples)
	}
	if err != nil {
		return nil, err
	}
	boundary.Unseal(a.rt.Residency)
	defer a.seal()
	return answer.TensorOf(a.answers().Activations(ctx, layer, b))
}

// answers has the weights of now.
func (a *attempt) answers() *answer.Engine {
	if a.answer == nil {
		a.answer = answer.NewEngine(a.rt, a.session.Trained(), answer.EngineOptions{})
	}
	return a.answer
}

// closeAnswers unloads the programs of answers.
func (a *attempt) closeAnswers() error {
	if a.answer == nil {
		return nil
	}
	defer func() { a.answer = nil }()
	return a.answer.Close()
}

// fetch copies a variable out. No step is queued.
func (a *attempt) fetch(ctx context.Context, name string) (*tensor.Dense, error) {
	m, b, ok, err := a.rings().Contents(ctx, ledger.Fetch, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, a.noVariable(name)
	}
	return hosttensor.Over(m, b)
}

// variable is the metadata of a variable of the training; ok is false if there is none.
func (a *attempt) variable(name string) (m shape.Meta, ok bool) {
	for _, v := range a.session.Plan.Graph.Vars {
		if whole := v.Whole(); whole.Name == name {
			return whole.Meta, true
		}
	}
	return m, false
}

// noVariable is the error of a name that no variable has.
func (a *attempt) noVariable(name string) error {
	var names, parameters []string
	for _, v := range a.session.Plan.Graph.Vars {
		name := v.Whole().Name
		if names = append(names, name); v.Role == graph.Parameter && !slices.Contains(parameters, name) {
			parameters = append(parameters, name)
		}
	}
	return fmt.Errorf("%w: the model has no variable %q; %s", errs.ErrOptions, name, edit.NearOrListed(name, names, "its parameters are", parameters))
}
