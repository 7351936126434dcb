package answer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/edit"
	"github.com/berth-ml/berth/internal/errs"
)

// Engine answers with a model's weights on a runtime. Programs for samples in memory are
// kept for the next question. It takes one call at a time.
type Engine struct {
	Model Model
	rt    *executor.Runtime
	opt   EngineOptions

	predictors map[question]*infer.Predictor
	asked      Batch // of the question that is being answered
}

// EngineOptions says how an engine gets its weights, and what it does with samples.
type EngineOptions struct {
	// Load copies the weights in, with the first program that is asked. Nil: another
	// program of the runtime has them.
	Load func(ctx context.Context, to Loader) error
	// Ran is told how many batches each group of devices has computed; nil for nobody.
	Ran func(batches []int)
	// Raw: samples in memory are in the unit of the data, and not scaled yet.
	Raw bool
	// Keep is the programs for samples in memory that are kept; 0: 8.
	Keep int
}

// Loader is a program that takes weights.
type Loader interface {
	InitFrom(ctx context.Context, c executor.Contents) error
}

// question is the work of one program.
type question struct {
	samples int
	layer   string // whose outputs are asked for; "": the model's answers
}

// NewEngine loads nothing yet. The caller closes the engine before the runtime.
func NewEngine(rt *executor.Runtime, m Model, o EngineOptions) *Engine {
	if o.Keep == 0 {
		o.Keep = 8
	}
	return &Engine{Model: m, rt: rt, opt: o, predictors: map[question]*infer.Predictor{}}
}

// load gives the first program the weights. Later ones find them on the runtime.
func (e *Engine) load(ctx context.Context, to Loader) (first bool, err error) {
	load := e.opt.Load
	if load == nil {
		return false, nil
	}
	e.opt.Load = nil
	return true, load(ctx, to)
}

// ran tells of the batches of a pass over a part.
func (e *Engine) ran(batches []int) {
	if e.opt.Ran != nil {
		e.opt.Ran(batches)
	}
}

// Evaluate computes the loss over a part, and what the judge's metrics need.
func (e *Engine) Evaluate(ctx context.Context, j *Judge, part *datasets.Part) (s infer.Score, err error) {
	x, err := infer.NewEvaluator(ctx, e.rt, j.Model(e.Model.Infer), part)
	if err == nil {
		_, err = e.load(ctx, x)
	}
	if err != nil {
		return s, err
	}
	s, err = x.Run(ctx)
	e.ran(x.Batches())
	return s, err
}

// Predict hands over the answer for each sample of a part, in order, behind those that
// are done. emit's error ends it.
func (e *Engine) Predict(ctx context.Context, part *datasets.Part, done *infer.Progress, emit func(Prediction) error) error {
	x, err := infer.NewPredictor(ctx, e.rt, e.Model.Infer, part)
	if err == nil {
		_, err = e.load(ctx, x)
	}
	if err != nil {
		return err
	}
	err = x.Run(ctx, done, func(a infer.Answer) error {
		return emit(e.Model.prediction(a.Index, slices.Clone(e.Model.answered(a))))
	})
	e.ran(x.Batches())
	return err
}

// Generate continues texts, at once, and gives the error of each: see [SizeOf]. Their emits are
// called by a goroutine each.
func (e *Engine) Generate(ctx context.Context, texts []*Text) (ended []error, err error) {
	g, err := e.generator(ctx, SizeOf(texts), true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	free := make(chan struct{}, 1) // has one element while a step runs
	j := newJoint(g, func(ctx context.Context, f func() error) error {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		defer func() { <-free }()
		return f()
	})
	ended = make([]error, len(texts))
	var all sync.WaitGroup
	for i, t := range texts {
		all.Go(func() {
			seat := j.sit(i, t.opt.sampling())
			defer seat.leave()
			ended[i] = t.run(ctx, seat)
		})
	}
	all.Wait()
	return ended, nil
}

// generator compiles the steps of texts, with the weights. fill says that the caches have no
// contents yet.
func (e *Engine) generator(ctx context.Context, size infer.GeneratorOptions, fill bool) (*infer.Generator, error) {
	g, err := infer.NewGenerator(ctx, e.rt, e.Model.Infer, size)
	if err != nil {
		return nil, err
	}
	first, err := e.load(ctx, g)
	if err == nil && !first && fill {
		err = g.Begin()
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Outputs computes the outputs for samples in memory, in the unit of the data: a tensor
// of [n, outputs], or of a sequence [n, positions, outputs].
func (e *Engine) Outputs(ctx context.Context, b Batch) (shape.Meta, []float32, error) {
	out, p, err := e.compute(ctx, question{samples: b.Samples}, b)
	if err != nil {
		return shape.Meta{}, nil, err
	}
	return e.Model.inUnits(out, b.Samples, p.Sample().Dim(-1)), out, nil
}

// Activations computes a layer's outputs for samples in memory: a tensor of [n, …].
func (e *Engine) Activations(ctx context.Context, layer string, b Batch) (shape.Meta, []float32, error) {
	if layer == "" {
		return shape.Meta{}, nil, fmt.Errorf("%w: the layer's name is empty: name a layer; Predict gives the output of the whole model", errs.ErrOptions)
	}
	out, p, err := e.compute(ctx, question{b.Samples, layer}, b)
	if err != nil {
		return shape.Meta{}, nil, err
	}
	return shape.F32(append([]int{b.Samples}, p.Sample()...)...), out, nil
}

// compute answers a question, sample after sample.
func (e *Engine) compute(ctx context.Context, q question, b Batch) (out []float32, p *infer.Predictor, err error) {
	if p, err = e.predictor(ctx, q); err != nil {
		return nil, nil, err
	}
	e.asked = b
	defer func() { e.asked = Batch{} }()
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

// predictor is the program for a question.
func (e *Engine) predictor(ctx context.Context, q question) (*infer.Predictor, error) {
	if p := e.predictors[q]; p != nil {
		return p, nil
	}
	if err := e.makeRoom(); err != nil {
		return nil, err
	}
	part, err := e.part(ctx, q)
	if err != nil {
		return nil, err
	}
	m := e.Model.Infer
	m.Layer, m.Name = q.layer, fmt.Sprintf("answer%d", q.samples)
	if q.layer != "" {
		m.Name = fmt.Sprintf("activations%d.%s", q.samples, q.layer)
	}
	if part.Buckets() != nil {
		m.Microbatch = min(m.Microbatch, q.samples)
	}
	p, err := infer.NewPredictor(ctx, e.rt, m, part)
	if err != nil {
		return nil, noLayer(err)
	}
	e.predictors[q] = p
	_, err = e.load(ctx, p)
	return p, err
}

// part is a part of the data that reads the samples that are asked about.
func (e *Engine) part(ctx context.Context, q question) (*datasets.Part, error) {
	info := e.Model.Info
	if info.Buckets != nil {
		return datasets.GivenSequences(info, q.samples, func(i int) []byte { return e.asked.sequence(&e.Model, i) }), nil
	}
	field := info.Inputs[0]
	per := int(field.Meta.Bytes())
	f := &datasets.Filled{
		Name: "samples to answer", Input: field.Meta, Tokens: info.Tokens, Len: q.samples,
		Fill: func(s datasets.Sample, input, _ []byte) error {
			copy(input, e.asked.rows[s.Index*per:])
			if e.opt.Raw && info.Scaling != nil {
				info.Scaling.Apply(shape.View[float32](input))
			}
			return nil
		},
	}
	parts, err := datasets.OpenInputs(ctx, datasets.Spec{Filled: f}, info, f.Name)
	if err != nil {
		return nil, errs.With(err, errs.ErrData)
	}
	return parts[0], nil
}

// makeRoom closes a program where there are as many as are kept.
func (e *Engine) makeRoom() error {
	if len(e.predictors) < e.opt.Keep {
		return nil
	}
	for q, p := range e.predictors {
		if q == (question{samples: 1}) { // a service's first holds the weights
			continue
		}
		delete(e.predictors, q)
		return p.Close()
	}
	return nil
}

// noLayer adds a likely name to the error of one that no layer has.
func noLayer(err error) error {
	x, ok := errors.AsType[*models.NoLayerError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("%w: %w; %s", errs.ErrOptions, x, edit.NearOrListed(x.Name, x.Layers, "its layers are", x.Layers))
}

// Close unloads the programs for samples in memory.
func (e *Engine) Close() (err error) {
	for _, p := range e.predictors {
		err = errors.Join(err, p.Close())
	}
	e.predictors = nil
	return err
}
