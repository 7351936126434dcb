package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
)

// answering computes a model's outputs for samples in memory, with weights that are on
// the devices. Programs for a number of samples are kept for the next call.
type answering struct {
	setup      *setup
	rt         *executor.Runtime
	predictors map[int]*infer.Predictor // by number of samples
	inputs     []byte                   // of the call under way
	scaling    *datasets.Scaling        // of samples in the unit of the data; nil: they are scaled already, or never
}

func newAnswering(s *setup, rt *executor.Runtime) *answering {
	return &answering{setup: s, rt: rt, predictors: map[int]*infer.Predictor{}}
}

// inputsOf checks a tensor of samples, and gives its memory.
func inputsOf(input *tensor.Dense, sample shape.Meta) (samples int, b []byte, err error) {
	m, b, err := hosttensor.Bytes(input)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if m.DType != sample.DType || m.Shape.Rank() != sample.Shape.Rank()+1 || m.Shape[0] < 1 || !slices.Equal(m.Shape[1:], sample.Shape) {
		return 0, nil, fmt.Errorf("%w: samples of %v are given, and the model takes %v: give a tensor of a number of those", ErrOptions, m, sample)
	}
	return m.Shape[0], b, nil
}

// mostPredictors is the number of programs that are kept.
const mostPredictors = 8

// predictor is the program for a number of samples.
func (a *answering) predictor(ctx context.Context, samples int) (*infer.Predictor, error) {
	if p := a.predictors[samples]; p != nil {
		return p, nil
	}
	if len(a.predictors) >= mostPredictors {
		for n, p := range a.predictors {
			if n == 1 { // which holds weights that no other program has
				continue
			}
			delete(a.predictors, n)
			if err := p.Close(); err != nil {
				return nil, err
			}
			break
		}
	}
	field := a.setup.info.Inputs[0]
	per := int(field.Meta.Bytes())
	f := &datasets.Filled{
		Name: "samples to answer", Input: field.Meta, Tokens: a.setup.info.Tokens, Len: samples,
		Fill: func(s datasets.Sample, row int, dst [][]byte) error {
			to := dst[0][row*per : (row+1)*per]
			copy(to, a.inputs[s.Index*per:])
			if a.scaling != nil {
				a.scaling.Apply(shape.View[float32](to))
			}
			return nil
		},
	}
	parts, err := datasets.OpenInputs(ctx, datasets.Spec{Filled: f}, a.setup.info, f.Name)
	if err != nil {
		return nil, unusable(err)
	}
	m := a.setup.model()
	m.Name = fmt.Sprintf("answer%d", samples)
	p, err := infer.NewPredictor(ctx, a.rt, m, parts[0])
	if err != nil {
		return nil, err
	}
	a.predictors[samples] = p
	return p, nil
}

// answer computes the outputs for samples: [samples, outputs], or for a sequence
// [samples, positions, outputs].
func (a *answering) answer(ctx context.Context, input *tensor.Dense) (*tensor.Dense, error) {
	samples, b, err := inputsOf(input, a.setup.info.Inputs[0].Meta)
	if err != nil {
		return nil, err
	}
	p, err := a.predictor(ctx, samples)
	if err != nil {
		return nil, err
	}
	a.inputs = b
	defer func() { a.inputs = nil }()
	var out []float32
	last := 0
	err = p.Run(ctx, &infer.Progress{}, func(x infer.Answer) error {
		if last = x.Last; out == nil {
			out = make([]float32, 0, samples*len(x.Values))
		}
		out = append(out, x.Values...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s := a.setup.info.TargetScaling; s != nil {
		s.Undo(out)
	}
	m := shape.F32(samples, last)
	if n := len(out) / samples; n > last {
		m = shape.F32(samples, n/last, last)
	}
	return hosttensor.Over(m, shape.Bytes(out))
}

// close unloads the programs.
func (a *answering) close() (err error) {
	for _, p := range a.predictors {
		err = errors.Join(err, p.Close())
	}
	a.predictors = nil
	return err
}
