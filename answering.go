package berth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
)

// answering computes a model's outputs, and those of its layers, for samples in memory,
// with weights that are on the devices. Programs are kept for the next call.
type answering struct {
	setup      *setup
	rt         *executor.Runtime
	predictors map[question]*infer.Predictor
	inputs     []byte            // of the call under way
	scaling    *datasets.Scaling // of samples in the unit of the data; nil: they are scaled already, or never
}

// question is the work of one program.
type question struct {
	samples int
	layer   string // whose outputs are asked for; "": the model's answers
}

func newAnswering(s *setup, rt *executor.Runtime) *answering {
	return &answering{setup: s, rt: rt, predictors: map[question]*infer.Predictor{}}
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

// predictor is the program for a question.
func (a *answering) predictor(ctx context.Context, q question) (*infer.Predictor, error) {
	if p := a.predictors[q]; p != nil {
		return p, nil
	}
	if err := a.makeRoom(); err != nil {
		return nil, err
	}
	field := a.setup.info.Inputs[0]
	per := int(field.Meta.Bytes())
	f := &datasets.Filled{
		Name: "samples to answer", Input: field.Meta, Tokens: a.setup.info.Tokens, Len: q.samples,
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
	m.Layer, m.Name = q.layer, fmt.Sprintf("answer%d", q.samples)
	if q.layer != "" {
		m.Name = fmt.Sprintf("activations%d.%s", q.samples, q.layer)
	}
	p, err := infer.NewPredictor(ctx, a.rt, m, parts[0])
	if err != nil {
		return nil, noLayer(err)
	}
	a.predictors[q] = p
	return p, nil
}

// makeRoom closes a program where there are as many as are kept.
func (a *answering) makeRoom() error {
	if len(a.predictors) < mostPredictors {
		return nil
	}
	for q, p := range a.predictors {
		if q == (question{samples: 1}) { // a service's first holds the weights
			continue
		}
		delete(a.predictors, q)
		return p.Close()
	}
	return nil
}

// noLayer adds a likely name to the error of one that no layer has.
func noLayer(err error) error {
	e, ok := errors.AsType[*models.NoLayerError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w: %w; %s", ErrOptions, e, nearOrListed(e.Name, e.Layers, "its layers are", e.Layers))
}

// answer computes the outputs for samples: [samples, outputs], or for a sequence
// [samples, positions, outputs].
func (a *answering) answer(ctx context.Context, input *tensor.Dense) (*tensor.Dense, error) {
	samples, b, err := inputsOf(input, a.setup.info.Inputs[0].Meta)
	if err != nil {
		return nil, err
	}
	out, p, err := a.outputs(ctx, question{samples: samples}, b)
	if err != nil {
		return nil, err
	}
	if s := a.setup.info.TargetScaling; s != nil {
		s.Undo(out)
	}
	last := p.Sample().Dim(-1)
	m := shape.F32(samples, last)
	if n := len(out) / samples; n > last {
		m = shape.F32(samples, n/last, last)
	}
	return hosttensor.Over(m, shape.Bytes(out))
}

// activations computes a layer's outputs for samples: [samples, …].
func (a *answering) activations(ctx context.Context, layer string, input *tensor.Dense) (*tensor.Dense, error) {
	if layer == "" {
		return nil, fmt.Errorf("%w: no layer is named: Predict gives the model's answers", ErrOptions)
	}
	samples, b, err := inputsOf(input, a.setup.info.Inputs[0].Meta)
	if err != nil {
		return nil, err
	}
	out, p, err := a.outputs(ctx, question{samples, layer}, b)
	if err != nil {
		return nil, err
	}
	return hosttensor.Over(shape.F32(append([]int{samples}, p.Sample()...)...), shape.Bytes(out))
}

// outputs computes the outputs that are asked for, sample after sample.
func (a *answering) outputs(ctx context.Context, q question, inputs []byte) (out []float32, p *infer.Predictor, err error) {
	if p, err = a.predictor(ctx, q); err != nil {
		return nil, nil, err
	}
	a.inputs = inputs
	defer func() { a.inputs = nil }()
	err = p.Run(ctx, &infer.Progress{}, func(x infer.Answer) error {
		if out == nil {
			out = make([]float32, 0, q.samples*len(x.Values))
		}
		out = append(out, x.Values...)
		return nil
	})
	return out, p, err
}

// close unloads the programs.
func (a *answering) close() (err error) {
	for _, p := range a.predictors {
		err = errors.Join(err, p.Close())
	}
	a.predictors = nil
	return err
}
