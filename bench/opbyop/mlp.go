package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
)

// The model is that of `trainer bench mlp`: dense 784-512-256-10 with relu, trained by AdamW.
const batch = 128

var widths = []int{784, 512, 256, 10}

var adam = ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, Decoupled: true, Scale: 1. / batch}

// mlp is the state of a training: weights and biases in turns, their moments, the step.
type mlp struct {
	*berth.OpByOp
	x, y             eager.Tensor
	params, mean, sq []eager.Tensor
	step, rate       eager.Tensor
	loss             eager.Tensor
}

func newMLP(c *berth.OpByOp) *mlp {
	r := rand.New(rand.NewPCG(1, 1))
	normal := func(scale float64, dims ...int) eager.Tensor {
		x := make([]float32, shape.Of(dims...).Elems())
		for i := range x {
			x[i] = float32(scale * r.NormFloat64())
		}
		return c.FromBytes(shape.F32(dims...), shape.Bytes(x), "")
	}
	labels := make([]int32, batch)
	for i := range labels {
		labels[i] = int32(r.IntN(widths[3]))
	}
	m := &mlp{OpByOp: c, x: normal(1, batch, widths[0]), y: c.FromBytes(shape.I32(batch), shape.Bytes(labels), "")}
	for i, n := range widths[1:] {
		m.params = append(m.params, normal(0.05, n, widths[i]), normal(0.05, n))
	}
	for _, p := range m.params {
		m.mean, m.sq = append(m.mean, c.One(ops.Fill{Meta: p.Meta()})), append(m.sq, c.One(ops.Fill{Meta: p.Meta()}))
	}
	m.step, m.rate = c.One(ops.Fill{Meta: shape.I32()}), c.One(ops.Fill{Meta: shape.F32(), Value: 1e-5})
	m.loss = c.One(ops.Fill{Meta: shape.F32()})
	return m
}

// end waits for the step's loss.
func (m *mlp) end(err error) error {
	if err == nil {
		err = m.loss.Wait(context.Background())
	}
	return err
}

func (m *mlp) close() (err error) {
	for _, list := range [][]eager.Tensor{m.params, m.mean, m.sq, {m.x, m.y, m.step, m.rate, m.loss}} {
		for _, t := range list {
			err = errors.Join(err, t.Release())
		}
	}
	return err
}

// newTaped trains by single ops and a tape.
func newTaped(c *berth.OpByOp, _ int) bench {
	m := newMLP(c)
	return bench{block: m.taped, calls: 1, close: m.close}
}

// taped is a step.
func (m *mlp) taped() error {
	tape := m.NewTape()
	h := m.x.Ref()
	for i := range len(m.params) / 2 {
		h = tape.One(ops.AddOp, tape.One(ops.MatMul{TransB: true}, h, m.params[2*i].Ref()), m.params[2*i+1].Ref())
		if i < len(m.params)/2-1 {
			h = tape.One(ops.Unary{Fn: "relu"}, h)
		}
	}
	loss := tape.One(ops.CrossEntropy{}, h, m.y.Ref())
	slopes, err := tape.Gradients(loss, m.params...)
	if err := errors.Join(err, tape.Close(), m.loss.Release()); err != nil {
		return err
	}
	m.loss = loss
	for i, g := range slopes {
		out := m.Execute(adam, m.params[i], g, m.mean[i], m.sq[i], m.step.Ref(), m.rate.Ref())
		m.params[i], m.mean[i], m.sq[i] = out[0], out[1], out[2]
	}
	m.step = m.One(ops.Increment{}, m.step)
	return m.end(nil)
}

// newCompiled trains by one compiled function of the loss and its gradients, and single
// ops for the updates.
func newCompiled(c *berth.OpByOp, _ int) bench {
	m := newMLP(c)
	loss := berth.Compile("loss", func(b *graph.Builder, in []*graph.Value) []*graph.Value {
		h := in[0]
		for i := 2; i < len(in); i += 2 {
			if h = ops.Add(b, ops.MatMulOf(b, h, in[i], false, true), in[i+1]); i < len(in)-2 {
				h = ops.Relu(b, h)
			}
		}
		return []*graph.Value{b.One(ops.CrossEntropy{}, h, in[1])}
	})
	slopes := loss.Gradients(2, 3, 4, 5, 6, 7)
	return bench{block: func() error { return m.compiled(slopes) }, calls: 1, close: m.close}
}

// compiled is a step.
func (m *mlp) compiled(slopes *eager.Function) error {
	args := []eager.Tensor{m.x.Ref(), m.y.Ref()}
	for _, p := range m.params {
		args = append(args, p.Ref())
	}
	out := m.Execute(slopes, args...)
	if err := m.loss.Release(); err != nil {
		return err
	}
	m.loss = out[0]
	for i, g := range out[1:] {
		next := m.Execute(adam, m.params[i], g, m.mean[i], m.sq[i], m.step.Ref(), m.rate.Ref())
		m.params[i], m.mean[i], m.sq[i] = next[0], next[1], next[2]
	}
	m.step = m.One(ops.Increment{}, m.step)
	return m.end(nil)
}
