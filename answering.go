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
	"github.com/berth-ml/berth/internal/edit"
)

// answering computes a model's outputs, and those of its layers, for samples in memory,
// with weights that are on the devices. Programs are kept for the next call.
type answering struct {
	setup      *setup
	rt         *executor.Runtime
	predictors map[question]*infer.Predictor
	inputs     []byte            // of the call under way
	scaling    *datasets.Scaling // of samples in the unit of the data; nil: they are scaled already, or never
	most       int               // programs that are kept
}

// question is the work of one program.
type question struct {
	samples int
	layer   string // whose outputs are asked for; "": the model's answers
}

func newAnswering(s *setup, rt *executor.Runtime) *answering {
	return &answering{setup: s, rt: rt, predictors: map[question]*infer.Predictor{}, most: mostPredictors}
}

// inputsOf checks a tensor of samples, and gives its memory. Samples with different lengths
// are packed: see pack.
func (s *setup) inputsOf(input *tensor.Dense) (samples int, b []byte, err error) {
	m, b, err := hosttensor.Bytes(input)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if s.info.Buckets != nil {
		return s.pack(m, b)
	}
	sample := s.info.Inputs[0].Meta
	if m.DType != sample.DType || m.Shape.Rank() != sample.Shape.Rank()+1 || m.Shape[0] < 1 || !slices.Equal(m.Shape[1:], sample.Shape) {
		return 0, nil, fmt.Errorf("%w: samples of %v are given: give %v, for n samples", ErrOptions, m, anyNumber(sample))
	}
	if err := s.info.CheckTokens(b); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return m.Shape[0], b, nil
}

// anyNumber prints the metadata of a tensor of n samples.
func anyNumber(sample shape.Meta) string {
	dims := "[n"
	for _, d := range sample.Shape {
		dims += fmt.Sprintf(",%d", d)
	}
	return sample.DType.String() + dims + "]"
}

// lengthOf is the positions of sample i of n packed ones.
func lengthOf(packed []byte, n, i int) int {
	return int(shape.View[int32](packed[i*len(packed)/n:])[0])
}

// packedBytes is the size of a packed sample, and of a position of it.
func (s *setup) packedBytes() (sample, position int) {
	m := s.info.Inputs[0].Meta
	n := int(m.Bytes())
	return 4 + n, n / m.Shape[0]
}

// pack gives each sample with a length as many bytes: the length, and its positions behind
// it. The rows of the tensor have padding behind their positions: see [datasets.PadInputs].
func (s *setup) pack(m shape.Meta, b []byte) (samples int, packed []byte, err error) {
	longest := s.info.Inputs[0].Meta
	most, fits := longest.Shape[0], m.DType == longest.DType && m.Shape.Rank() == longest.Shape.Rank()+1
	if !fits || m.Shape[0] < 1 || m.Shape[1] < 1 || m.Shape[1] > most || !slices.Equal(m.Shape[2:], longest.Shape[1:]) {
		return 0, nil, fmt.Errorf("%w: samples of %v are given, and the model takes sequences of 1 to %d positions: give a tensor %v with the samples as another axis in front, and %s behind the positions of shorter ones", ErrOptions, m, most, longest, paddingText(longest))
	}
	size, per := s.packedBytes()
	out := make([]byte, m.Shape[0]*size)
	for i := range m.Shape[0] {
		row, to := b[i*m.Shape[1]*per:][:m.Shape[1]*per], out[i*size:]
		n := 0
		for n < m.Shape[1] && !datasets.IsPadding(longest, row[n*per:(n+1)*per]) {
			n++
		}
		for k := n; k < m.Shape[1]; k++ {
			if n == 0 || !datasets.IsPadding(longest, row[k*per:(k+1)*per]) {
				return 0, nil, fmt.Errorf("%w: sample %d has no position, or some behind padding: give its positions first, and %s behind them", ErrOptions, i, paddingText(longest))
			}
		}
		if err := s.info.CheckTokens(row[:n*per]); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		shape.View[int32](to)[0] = int32(n)
		copy(to[4:], row[:n*per])
	}
	return m.Shape[0], out, nil
}

// paddingText words the padding of samples in memory.
func paddingText(m shape.Meta) string {
	if m.DType == shape.Int32 {
		return fmt.Sprint(datasets.Padding)
	}
	return "NaN"
}

// sequence is the positions of a packed sample of the call under way.
func (a *answering) sequence(i int) []byte {
	size, per := a.setup.packedBytes()
	row := a.inputs[i*size:]
	return row[4:][:per*int(shape.View[int32](row)[0])]
}

// mostPredictors is the number of programs that are kept, unless a service has more sizes of batches.
const mostPredictors = 8

// predictor is the program for a question.
func (a *answering) predictor(ctx context.Context, q question) (*infer.Predictor, error) {
	if p := a.predictors[q]; p != nil {
		return p, nil
	}
	if err := a.makeRoom(); err != nil {
		return nil, err
	}
	part, err := a.part(ctx, q)
	if err != nil {
		return nil, err
	}
	m := a.setup.model()
	m.Layer, m.Name = q.layer, fmt.Sprintf("answer%d", q.samples)
	if q.layer != "" {
		m.Name = fmt.Sprintf("activations%d.%s", q.samples, q.layer)
	}
	if part.Buckets() != nil {
		m.Microbatch = min(m.Microbatch, q.samples)
	}
	p, err := infer.NewPredictor(ctx, a.rt, m, part)
	if err != nil {
		return nil, noLayer(err)
	}
	a.predictors[q] = p
	return p, nil
}

// part is the samples of calls with a question.
func (a *answering) part(ctx context.Context, q question) (*datasets.Part, error) {
	if a.setup.info.Buckets != nil {
		return datasets.GivenSequences(a.setup.info, q.samples, a.sequence), nil
	}
	field := a.setup.info.Inputs[0]
	per := int(field.Meta.Bytes())
	f := &datasets.Filled{
		Name: "samples to answer", Input: field.Meta, Tokens: a.setup.info.Tokens, Len: q.samples,
		Fill: func(s datasets.Sample, input, _ []byte) error {
			copy(input, a.inputs[s.Index*per:])
			if a.scaling != nil {
				a.scaling.Apply(shape.View[float32](input))
			}
			return nil
		},
	}
	parts, err := datasets.OpenInputs(ctx, datasets.Spec{Filled: f}, a.setup.info, f.Name)
	if err != nil {
		return nil, unusable(err)
	}
	return parts[0], nil
}

// makeRoom closes a program where there are as many as are kept.
func (a *answering) makeRoom() error {
	if len(a.predictors) < a.most {
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
	return fmt.Errorf("%w: %w; %s", ErrOptions, e, edit.NearOrListed(e.Name, e.Layers, "its layers are", e.Layers))
}

// answer computes the outputs for samples: [samples, outputs], or for a sequence
// [samples, positions, outputs].
func (a *answering) answer(ctx context.Context, input *tensor.Dense) (*tensor.Dense, error) {
	samples, b, err := a.setup.inputsOf(input)
	if err != nil {
		return nil, err
	}
	out, p, err := a.outputs(ctx, question{samples: samples}, b)
	if err != nil {
		return nil, err
	}
	return a.inUnits(out, samples, p.Sample().Dim(-1))
}

// last is the length of the last axis of answers, once there is a program for one sample.
func (a *answering) last() int { return a.predictors[question{samples: 1}].Sample().Dim(-1) }

// inUnits makes a tensor of outputs, whose last axis has the length last, in the unit of
// the data.
func (a *answering) inUnits(out []float32, samples, last int) (*tensor.Dense, error) {
	if s := a.setup.info.TargetScaling; s != nil {
		s.Undo(out)
	}
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
	samples, b, err := a.setup.inputsOf(input)
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
	per := p.Sample().Elems() // of a sequence with a length: there are zeros behind its answers
	err = p.Run(ctx, &infer.Progress{}, func(x infer.Answer) error {
		if out == nil {
			out = make([]float32, 0, q.samples*per)
		}
		out = append(out, x.Values...)
		out = append(out, make([]float32, per-len(x.Values))...)
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
