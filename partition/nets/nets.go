package nets

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Net describes a training graph for tests: blocks b0, b1, … of one dense
// layer each, and a loss.
type Net struct {
	Width, Batch, Microbatches int
	Blocks                     []block
	Adam, Clip, Dropout        bool
	Stats                      bool // running averages of activations
	readLoss                   bool // the loss is an output besides being summed
}

// block is x -> tanh(x W + bias [+ an earlier block's output]).
type block struct {
	Skip   int // block whose output is added, -1 for none
	Tied   int // block whose weight is used, itself for its own
	bias   bool
	Frozen bool
}

// Chain is n plain blocks.
func Chain(n, width, batch, microbatches int) Net {
	s := Net{Width: width, Batch: batch, Microbatches: microbatches}
	for i := range n {
		s.Blocks = append(s.Blocks, block{Skip: -1, Tied: i, bias: true})
	}
	return s
}

// Draw makes a random one.
func Draw(t *rapid.T) Net {
	s := Chain(rapid.IntRange(1, 6).Draw(t, "blocks"), rapid.IntRange(1, 4).Draw(t, "width"), rapid.IntRange(1, 3).Draw(t, "batch"), rapid.IntRange(1, 6).Draw(t, "microbatches"))
	for i := range s.Blocks {
		b := &s.Blocks[i]
		b.Skip = rapid.IntRange(-1, i-1).Draw(t, "skip")
		b.Tied = rapid.IntRange(0, i).Draw(t, "tied")
		b.bias = rapid.Bool().Draw(t, "bias")
		b.Frozen = rapid.IntRange(0, 4).Draw(t, "frozen") == 0
	}
	for _, f := range []*bool{&s.Adam, &s.Clip, &s.Dropout, &s.Stats, &s.readLoss} {
		*f = rapid.Bool().Draw(t, "option")
	}
	return s
}

// builder has the state that the parts of a net share.
type builder struct {
	*graph.Builder
	Net
	step, base *graph.Value
	trained    []*graph.Value
	later      []func() // added to the update
}

// Build makes the graph of a training step.
func (s Net) Build() (*graph.Graph, error) {
	b := &builder{Builder: graph.NewBuilder("net", s.Microbatches), Net: s}
	b.step = b.Var("step", shape.I32(), graph.Counter, graph.Init{})
	x := b.Input("input", shape.F32(s.Batch, s.Width))
	b.base = b.MicrobatchConstant("base", shape.I32())
	var outs, weights []*graph.Value
	for i, bl := range s.Blocks {
		x = b.block(i, bl, x, outs, &weights)
		outs = append(outs, x)
	}
	target := b.Input("target", shape.F32(s.Batch, s.Width))
	last := &graph.Layer{Index: len(s.Blocks), Type: "loss", Name: "mse", Block: fmt.Sprintf("b%d", len(s.Blocks)-1)}
	restore := b.In(last)
	loss := b.One(ops.CheckFinite{}, b.One(ops.MSE{}, x, target))
	restore()
	b.Output("prediction", x)
	if s.readLoss {
		b.Output("loss", loss)
	}
	b.train(loss)
	return b.Graph()
}

func (b *builder) block(i int, bl block, x *graph.Value, outs []*graph.Value, weights *[]*graph.Value) *graph.Value {
	name := fmt.Sprintf("b%d", i)
	l := &graph.Layer{Index: i, Type: "dense", Name: name, Block: name, Pos: graph.Pos{File: "net.yaml", Line: 10 + i}}
	defer b.In(l)()
	w := b.Width
	if bl.Tied == i {
		v := b.Var(name+".weight", shape.F32(w, w), graph.Parameter, graph.Init{Kind: graph.Normal, A: 0.5}, "weight")
		*weights = append(*weights, v)
		if !bl.Frozen {
			b.trained = append(b.trained, v)
		}
	} else {
		*weights = append(*weights, (*weights)[bl.Tied])
	}
	y := b.One(ops.MatMul{}, x, (*weights)[i])
	if bl.bias {
		v := b.Var(name+".bias", shape.F32(w), graph.Parameter, graph.Init{Kind: graph.Normal, A: 0.5}, "bias")
		b.trained = append(b.trained, v)
		y = ops.Add(b.Builder, y, v)
	}
	if bl.Skip >= 0 {
		y = ops.Add(b.Builder, y, outs[bl.Skip])
	}
	y = ops.Tanh(b.Builder, y)
	if b.Dropout {
		y = b.One(ops.Dropout{P: 0.3, Seed: 7, ID: uint64(i)}, y, b.step, b.base)
	}
	if b.Stats {
		b.statistic(name, y, l)
	}
	return y
}

// statistic keeps a running average of y's mean, updated once per step.
func (b *builder) statistic(name string, y *graph.Value, l *graph.Layer) {
	v := b.Var(name+".mean", shape.F32(b.Width), graph.Statistic, graph.Init{})
	sum := b.Accumulate(ops.Mean(b.Builder, y, false, 0), ops.AddOp)
	b.later = append(b.later, func() {
		defer b.In(l)()
		b.Assign(v, b.One(ops.Lerp{T: 0.1}, v, ops.ScaleBy(b.Builder, sum, 1/float64(b.Net.Microbatches))))
	})
}

// train appends the backward pass and the update.
func (b *builder) train(loss *graph.Value) {
	restore := b.InPhase(graph.Backward)
	seed := ops.Const(b.Builder, shape.F32(), 1)
	restore()
	parts := b.Gradients(loss, seed, b.trained, ops.AddOp)
	defer b.InPhase(graph.Update)()
	lr := b.One(ops.LearningRate{Schedule: "constant", Base: 0.1}, b.step)
	grads := map[*graph.Value]*graph.Value{}
	var squares []*graph.Value
	for _, v := range b.trained {
		for _, p := range parts[v] {
			p = b.Accumulate(p, ops.AddOp)
			if grads[v] != nil {
				p = ops.Add(b.Builder, grads[v], p)
			}
			grads[v] = p
		}
		if b.Clip {
			squares = append(squares, b.One(ops.SumSquares{}, grads[v]))
		}
	}
	var clip *graph.Value
	if len(squares) > 0 {
		clip = b.One(ops.ClipFactor{MaxNorm: 0.5, Scale: 0.25}, squares...)
	}
	for _, v := range b.trained {
		b.optimize(v, grads[v], lr, clip)
	}
	for _, f := range b.later {
		f()
	}
	ring := b.Var("ring", shape.F32(5), graph.Metric, graph.Init{})
	b.Assign(ring, b.One(ops.RingWrite{Scale: 0.25}, ring, b.step, b.Accumulate(loss, ops.AddOp)))
	b.Assign(b.step, b.One(ops.Increment{}, b.step))
}

func (b *builder) optimize(v, g, lr, clip *graph.Value) {
	in := []*graph.Value{v, g}
	state := func(name string) *graph.Value {
		return b.Var(v.Name+"/"+name, v.Meta, graph.OptState, graph.Init{})
	}
	var op graph.Op
	vars := []*graph.Value{v}
	if b.Adam {
		vars = append(vars, state("m"), state("v"))
		in = append(in, vars[1], vars[2], b.step, lr)
		op = ops.Adam{Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 0.25, Clip: clip != nil}
	} else {
		vars = append(vars, state("momentum"))
		in = append(in, lr, vars[1])
		op = ops.SGD{Momentum: 0.9, Scale: 0.25, Clip: clip != nil}
	}
	if clip != nil {
		in = append(in, clip)
	}
	out := b.Apply(op, in...)
	if b.Err() != nil {
		return
	}
	for i, v := range vars {
		b.Assign(v, out[i])
	}
}

// Specs is n equal devices with that many bytes each, 0 for no limit.
func Specs(n int, bytes int64) []device.Spec {
	s := make([]device.Spec, n)
	for i := range s {
		s[i] = device.Spec{ID: device.ID(fmt.Sprintf("cpu:%d", i)), Kind: "cpu", MemoryBytes: bytes, FlopsPerSecond: 1e9}
	}
	return s
}

// Tied has a skip over a stage, a weight used in two, and clipping.
func Tied(microbatches int) Net {
	s := Chain(3, 4, 2, microbatches)
	s.Blocks[2].Skip, s.Blocks[2].Tied, s.Clip, s.readLoss = 0, 0, true, true
	return s
}

// EachCut calls f for every cut of so many blocks into stages on different devices, with
// the first block and the device of each stage.
func EachCut(blocks, devices, stages int, f func(begins, on []int)) {
	var cuts func(begins []int)
	var deal func(begins, on []int)
	deal = func(begins, on []int) {
		if len(on) == len(begins) {
			f(slices.Clone(begins), slices.Clone(on))
			return
		}
		for d := range devices {
			if !slices.Contains(on, d) {
				deal(begins, append(on[:len(on):len(on)], d))
			}
		}
	}
	cuts = func(begins []int) {
		if len(begins) == stages {
			deal(begins, nil)
			return
		}
		for next := begins[len(begins)-1] + 1; next < blocks; next++ {
			cuts(append(begins[:len(begins):len(begins)], next))
		}
	}
	cuts([]int{0})
}
