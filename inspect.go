package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/internal/edit"
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

	s *session // nil: it is not valid any more
}

// Fetch copies a variable out of the device: a parameter, a statistic of a layer or a
// part of the optimizer's state, by the name that `trainer checkpoints inspect` prints.
// The ledger counts the bytes as fetch.
func (i *Inspection) Fetch(ctx context.Context, name string) (*tensor.Dense, error) {
	if i.s == nil {
		return nil, fmt.Errorf("%w: Inspect has returned", ErrClosed)
	}
	return i.s.fetch(ctx, name)
}

// Activations computes the outputs of a layer for samples, a tensor of [n, …], with the
// weights of now and as an evaluation does: nothing is dropped. nil means the samples of
// the last step, as the data has them. Samples are as in Batch.Input. Layers have the names
// that `trainer plan --layers` prints. The ledger counts the bytes as fetch.
func (i *Inspection) Activations(ctx context.Context, layer string, samples *tensor.Dense) (*tensor.Dense, error) {
	if i.s == nil {
		return nil, fmt.Errorf("%w: Inspect has returned", ErrClosed)
	}
	return i.s.activations(ctx, layer, samples)
}

// lastSamples reads the samples of the last step once more.
func (s *session) lastSamples() (b answer.Batch, err error) {
	if s.at.Step == 0 {
		return b, fmt.Errorf("%w: no step is taken yet: give the samples", ErrOptions)
	}
	epoch, inEpoch := s.at.PlaceOf(s.at.Step, s.sizes.pace)
	from := datasets.Cursor{Epoch: epoch, Index: (inEpoch - 1) * s.sizes.batch}
	dst := s.part.Alloc(s.sizes.batch)
	n, err := s.part.Read(from, s.sizes.batch, dst)
	if err != nil {
		return b, unusable(err)
	}
	m := s.part.Shapes(s.part.Bucket(from))[0].Meta
	if s.spec.Lengths {
		n -= s.part.Empty(from, n)
		datasets.PadInputs(m, dst[0], dst[1][:4*n])
	}
	m.Shape = append([]int{n}, m.Shape...)
	return s.answers().Model.Check(m, dst[0][:m.Bytes()])
}

// predict computes the model's outputs with the weights of now. No step is queued.
func (s *session) predict(ctx context.Context, samples *tensor.Dense) (*tensor.Dense, error) {
	boundary.Unseal(s.rt.Residency)
	defer s.seal()
	b, err := batchOf(&s.answers().Model, samples)
	if err != nil {
		return nil, err
	}
	return tensorOf(s.answers().Outputs(ctx, b))
}

// activations computes a layer's outputs; without samples, for those of the last step.
// No step is queued.
func (s *session) activations(ctx context.Context, layer string, samples *tensor.Dense) (*tensor.Dense, error) {
	var b answer.Batch
	var err error
	if samples == nil {
		b, err = s.lastSamples()
	} else {
		b, err = batchOf(&s.answers().Model, samples)
	}
	if err != nil {
		return nil, err
	}
	boundary.Unseal(s.rt.Residency)
	defer s.seal()
	return tensorOf(s.answers().Activations(ctx, layer, b))
}

// answers has the weights of now.
func (s *session) answers() *answer.Engine {
	if s.answer == nil {
		s.answer = answer.NewEngine(s.rt, s.trainedModel(), answer.EngineOptions{})
	}
	return s.answer
}

// closeAnswers unloads the programs of answers.
func (s *session) closeAnswers() error {
	if s.answer == nil {
		return nil
	}
	defer func() { s.answer = nil }()
	return s.answer.Close()
}

// fetch copies a variable out. No step is queued.
func (s *session) fetch(ctx context.Context, name string) (*tensor.Dense, error) {
	m, b, ok, err := s.rings().Contents(ctx, ledger.Fetch, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, s.noVariable(name)
	}
	return hosttensor.Over(m, b)
}

// variable is the metadata of a variable of the training; ok is false if there is none.
func (s *session) variable(name string) (m shape.Meta, ok bool) {
	for _, v := range s.plan.Graph.Vars {
		if whole := v.Whole(); whole.Name == name {
			return whole.Meta, true
		}
	}
	return m, false
}

// noVariable is the error of a name that no variable has.
func (s *session) noVariable(name string) error {
	var names, parameters []string
	for _, v := range s.plan.Graph.Vars {
		name := v.Whole().Name
		if names = append(names, name); v.Role == graph.Parameter && !slices.Contains(parameters, name) {
			parameters = append(parameters, name)
		}
	}
	return fmt.Errorf("%w: the model has no variable %q; %s", ErrOptions, name, edit.NearOrListed(name, names, "its parameters are", parameters))
}
