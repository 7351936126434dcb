package infer

import (
	"context"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency/ledger"
)

// Answer is a model's output for one sample.
type Answer struct {
	Index  int       // of the sample in the part
	Values []float32 // valid until the function that was given it returns
	Last   int       // length of the output's last axis: Values has one or more rows of it
}

// Predictor computes answers for a part.
type Predictor struct{ pass *pass }

// NewPredictor compiles the prediction of a part, whose samples may have
// another shape than those that the model was trained on.
func NewPredictor(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Predictor, error) {
	spec := m.Spec
	spec.Input = part.Fields()[0].Meta
	p, err := newPass(ctx, rt, m, part, executor.LoadOptions{Net: "predict", Fetch: true}, func(z models.Size) (*graph.Graph, error) {
		return models.Predict(spec, z)
	})
	if err != nil {
		return nil, err
	}
	return &Predictor{p}, nil
}

// Init gives the variables their contents.
func (p *Predictor) Init(ctx context.Context, contents func(v *graph.Value, dst []byte) error) error {
	return p.pass.prog.Init(ctx, contents)
}

// InitFrom is Init with contents of any kind: see [executor.Program.InitFrom].
func (p *Predictor) InitFrom(ctx context.Context, c executor.Contents) error {
	return p.pass.prog.InitFrom(ctx, c)
}

// Close unloads the prediction. The weights stay if another program has them.
func (p *Predictor) Close() error { return p.pass.prog.Close() }

// Run hands emit the answer of each sample, in order. emit's error ends it.
func (p *Predictor) Run(ctx context.Context, emit func(Answer) error) error {
	return p.pass.each(ctx, func(b datasets.Batch) error { return p.answers(ctx, b, emit) })
}

// answers fetches the output of a batch that has run.
func (p *Predictor) answers(ctx context.Context, b datasets.Batch, emit func(Answer) error) error {
	out, err := p.pass.prog.Output(models.PredictOutput, b.Samples)
	if err != nil {
		return err
	}
	v, err := p.pass.rt.Floats(ctx, ledger.Fetch, out)
	if err != nil {
		return err
	}
	per, last := len(v)/b.Samples, out.Meta().Shape.Dim(-1)
	for i := range b.Samples {
		if err := emit(Answer{b.At.Index + i, v[i*per : (i+1)*per], last}); err != nil {
			return err
		}
	}
	return p.pass.rt.Residency.Drop(out)
}
