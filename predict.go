package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// Eval computes loss and accuracy over the validation part, or over the
// training part where there is no other. A run opened with OpenTrained on data
// that it was not trained on is evaluated on all of it.
func (r *Run) Eval(ctx context.Context, w Weights) (Evaluation, error) {
	if err := r.usable(); err != nil {
		return Evaluation{}, err
	}
	data, err := r.data(ctx)
	if err != nil {
		return Evaluation{}, err
	}
	part, name := data.Val, "validation"
	switch {
	case part != nil:
	case r.like != nil && r.like.Fingerprint != data.Info.Fingerprint:
		part, name = data.Train, "all"
	default:
		part, name = data.Train, "training"
	}
	rt, err := executor.NewRuntime(r.devs, residency.ManagerOptions{})
	if err != nil {
		return Evaluation{}, err
	}
	res, err := r.evalOn(ctx, rt, part, w)
	res.Part = name
	return res, errors.Join(err, rt.Close())
}

func (r *Run) evalOn(ctx context.Context, rt *executor.Runtime, part *datasets.Part, w Weights) (Evaluation, error) {
	e, err := r.newEvaluator(ctx, rt, part)
	if err != nil {
		return Evaluation{}, err
	}
	if err := r.use(ctx, w, e.prog); err != nil {
		return Evaluation{}, err
	}
	return e.run(ctx)
}

// Prediction is the model's answer for one sample. For classes, Values are
// their probabilities, Class the likeliest one, and Label its name; a text's
// answer is about the character after the sample's last one. For regression,
// Values are the numbers in their own unit.
type Prediction struct {
	Index  int       `json:"index"`
	Class  *int      `json:"class,omitempty"`
	Label  string    `json:"label,omitempty"`
	Values []float32 `json:"values"`
}

// Predict runs the model on the samples of a file in the format of the run's
// data, or on the validation part for an empty path, and hands over each
// answer in order. emit's error ends it.
func (r *Run) Predict(ctx context.Context, w Weights, path string, emit func(Prediction) error) error {
	if err := r.usable(); err != nil {
		return err
	}
	parts, err := r.samples(ctx, path)
	if err != nil {
		return err
	}
	first := 0
	for _, part := range parts {
		rt, err := executor.NewRuntime(r.devs, residency.ManagerOptions{})
		if err != nil {
			return err
		}
		after := func(p Prediction) error {
			p.Index += first
			return emit(p)
		}
		if err := errors.Join(r.predictOn(ctx, rt, part, w, after), rt.Close()); err != nil {
			return err
		}
		first += part.Len()
	}
	return nil
}

// samples are what to predict from, a part for each shape of them.
func (r *Run) samples(ctx context.Context, path string) ([]*datasets.Part, error) {
	if path != "" {
		parts, err := datasets.OpenInputs(ctx, datasetSpec(r.Config), &r.Data.Info, path)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrData, err)
		}
		return parts, err
	}
	data, err := r.data(ctx)
	switch {
	case err != nil:
		return nil, err
	case data.Val != nil:
		return []*datasets.Part{data.Val}, nil
	case r.like != nil && r.like.Fingerprint != data.Info.Fingerprint:
		return []*datasets.Part{data.Train}, nil
	}
	return nil, fmt.Errorf("%w: there is no validation part: name a file to predict from", ErrData)
}

func (r *Run) predictOn(ctx context.Context, rt *executor.Runtime, part *datasets.Part, w Weights, emit func(Prediction) error) error {
	p, err := r.loadPredict(ctx, rt, part)
	if err != nil {
		return err
	}
	if err := r.use(ctx, w, p); err != nil {
		return err
	}
	return r.each(ctx, rt, p, part, func(b datasets.Batch) error { return r.answer(ctx, rt, p, b, emit) })
}

// loadPredict compiles the prediction graph for batches of a part.
func (r *Run) loadPredict(ctx context.Context, rt *executor.Runtime, part *datasets.Part) (*executor.Program, error) {
	batch := min(r.sizes.microbatch, part.Len())
	spec := r.spec
	spec.Input = part.Fields()[0].Meta
	g, err := models.Predict(spec, batch)
	if err != nil {
		return nil, err
	}
	o := executor.LoadOptions{Net: "predict", Fetch: true, LastMicrobatches: 1, Stop: stopOf(ctx)}
	if o.Full, err = r.sameCut(ctx, g); err != nil {
		return nil, err
	}
	if rest := part.Len() % batch; rest > 0 {
		last, err := models.Predict(spec, rest)
		if err != nil {
			return nil, err
		}
		if o.Tail, err = o.Full.Rebind(last); err != nil {
			return nil, err
		}
	}
	return rt.Load(o)
}

// answer fetches the output of a batch that has run.
func (r *Run) answer(ctx context.Context, rt *executor.Runtime, p *executor.Program, b datasets.Batch, emit func(Prediction) error) error {
	out, err := p.Output(models.PredictOutput, b.Samples)
	if err != nil {
		return err
	}
	v, err := floats(ctx, rt.Residency, residency.Fetch, out)
	if err != nil {
		return err
	}
	per, last := len(v)/b.Samples, out.Meta().Shape.Dim(-1)
	for i := range b.Samples {
		if err := emit(r.prediction(b.At.Index+i, v[i*per:(i+1)*per], last)); err != nil {
			return err
		}
	}
	return rt.Residency.Drop(out)
}

// prediction words one sample's output, whose last axis is that long.
func (r *Run) prediction(index int, v []float32, last int) Prediction {
	info := &r.Data.Info
	if !r.spec.Classifies() || info.Classes == 0 {
		p := Prediction{Index: index, Values: slices.Clone(v)}
		if info.TargetScaling != nil {
			info.TargetScaling.Undo(p.Values)
		}
		return p
	}
	v = v[len(v)-last:] // the last position of a sequence
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	p := Prediction{Index: index, Class: &best, Values: slices.Clone(v)}
	switch {
	case info.Vocab != nil:
		p.Label = string(info.Vocab.Decode([]int32{int32(best)}))
	case best < len(info.ClassNames):
		p.Label = info.ClassNames[best]
	}
	return p
}
