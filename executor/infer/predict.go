package infer

import (
	"context"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
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
type Predictor struct {
	pass    *pass
	out     shape.Shape    // of the outputs of a batch; of the longest, if samples have lengths
	lengths *datasets.Part // nil: all samples have one shape
}

// NewPredictor compiles the prediction of a part, whose samples may have
// another shape than those that the model was trained on. It fails with
// [models.NoLayerError] where the model has no layer of the name Model.Layer.
func NewPredictor(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Predictor, error) {
	spec := m.Spec
	spec.Input = part.Fields()[0].Meta
	x := &Predictor{}
	if spec.Lengths {
		part = part.InOrder()
		x.lengths = part
	}
	p, err := newPass(ctx, rt, m, part, executor.LoadOptions{Net: "predict", Fetch: true}, builder{build: func(z models.Size, _ string) (*graph.Graph, error) {
		if m.Layer != "" {
			return models.Activations(spec, z, m.Layer)
		}
		return models.Predict(spec, z)
	}})
	if err != nil {
		return nil, err
	}
	for _, v := range p.lanes[0].Program.Graph().Outputs {
		if v.Name == models.PredictOutput {
			x.pass, x.out = p, v.Meta.Shape
			return x, nil
		}
	}
	panic("BUG: the graph of predictions has no output")
}

// Program is the one on the first group of devices.
func (p *Predictor) Program() *executor.Program { return p.pass.lanes[0].Program }

// Sample is the shape of a sample's output.
func (p *Predictor) Sample() shape.Shape { return p.out[1:] }

// Init gives the variables their contents.
func (p *Predictor) Init(ctx context.Context, contents func(v *graph.Value, dst []byte) error) error {
	return p.InitFrom(ctx, executor.Contents{Write: contents})
}

// InitFrom is Init with contents of any kind: see [executor.Program.InitFrom].
func (p *Predictor) InitFrom(ctx context.Context, c executor.Contents) error {
	return p.pass.initFrom(ctx, c)
}

// Close unloads the prediction. The weights stay if another program has them.
func (p *Predictor) Close() error { return p.pass.close() }

// Batches is the number of batches that each group of devices has computed.
func (p *Predictor) Batches() []int { return p.pass.ran }

// Run hands emit the answer of each sample that is not done, in order. emit's error ends
// it.
func (p *Predictor) Run(ctx context.Context, done *Progress, emit func(Answer) error) error {
	return p.pass.values(ctx, done, ledger.Fetch, []string{models.PredictOutput}, user{use: func(_ int, b datasets.Batch, outs [][]float32) error {
		v, per := outs[0], len(outs[0])/b.Samples
		for i := range b.Samples {
			values, empty := p.answered(b, i, v[i*per:(i+1)*per])
			if empty {
				break
			}
			if err := emit(Answer{b.At.Index + i, values, p.out.Dim(-1)}); err != nil {
				return err
			}
		}
		return nil
	}})
}

// answered cuts padding off the values of sample i of a batch. empty says that this sample
// and all after it only fill the batch up.
func (p *Predictor) answered(b datasets.Batch, i int, values []float32) (_ []float32, empty bool) {
	switch {
	case p.lengths == nil:
		return values, false
	case i >= b.Samples-b.Empty:
		return nil, true
	case p.out.Rank() < 3: // one answer for the whole sequence
		return values, false
	}
	row := p.out[2:].Elems()
	return values[:p.lengths.Length(b.At.Index+i)*row], false
}
