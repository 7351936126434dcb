package models

import (
	"math"
	"strconv"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// LSTM is a long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates:
// Gers et al., 2000).
type LSTM struct {
	Units         int  `yaml:"units" min:"1" doc:"outputs"`
	Last          bool `yaml:"last" doc:"only the output after the last token read, [units], in place of [time, units]; with bidirectional the second half is that of the first position, as in h_n of PyTorch"`
	Bidirectional bool `yaml:"bidirectional" doc:"a second loop goes from the end to the start; the outputs of both are joined"`
	NoBias        bool `yaml:"bias,not" doc:"add two learned numbers to each gate"`
}

// GRU is a gated recurrent unit (Cho et al., 2014).
type GRU LSTM

func init() {
	builtIn(LayerType[LSTM]{Name: "lstm", Doc: "Long short-term memory, as PyTorch's: [time, width] to [time, units].", Takes: Sequences})
	builtIn(LayerType[GRU]{Name: "gru", Doc: "Gated recurrent units, as PyTorch's: [time, width] to [time, units].", Takes: Sequences})
}

// Build appends the layer.
func (l LSTM) Build(b *Builder, x *graph.Value) *graph.Value { return l.recurrent(b.c, x, lstm) }

// Build appends the layer.
func (l GRU) Build(b *Builder, x *graph.Value) *graph.Value { return LSTM(l).recurrent(b.c, x, gru) }

// BothEnds reports whether an output depends on what comes after it.
func (l LSTM) BothEnds() bool { return l.Bidirectional }

// BothEnds reports whether an output depends on what comes after it.
func (l GRU) BothEnds() bool { return l.Bidirectional }

func (l LSTM) cached(c *context, x *graph.Value) *graph.Value { return l.chunked(c, x, lstm) }

func (l GRU) cached(c *context, x *graph.Value) *graph.Value { return LSTM(l).chunked(c, x, gru) }

// A cell is one step of a recurrent layer. Its parameters are named, laid out and
// initialised as PyTorch's.
type cell struct {
	gates  int  // blocks of H rows in each weight
	states int  // values [B,H] that go from step to step; the first is the output
	apart  bool // the state's product is needed by itself, with its bias
	step   func(d *direction, gates *graph.Value, state []*graph.Value) []*graph.Value
}

// lstm is a step of an LSTM. The gates are i, f, g and o, the states h and c.
var lstm = cell{4, 2, false, func(d *direction, gates *graph.Value, state []*graph.Value) []*graph.Value {
	b := d.c.b
	gates = ops.Add(b, gates, d.fromState(state[0]))
	i, f, o := ops.Sigmoid(b, d.gate(gates, 0)), ops.Sigmoid(b, d.gate(gates, 1)), ops.Sigmoid(b, d.gate(gates, 3))
	c := ops.Add(b, ops.Mul(b, f, state[1]), ops.Mul(b, i, ops.Tanh(b, d.gate(gates, 2))))
	return []*graph.Value{ops.Mul(b, o, ops.Tanh(b, c)), c}
}}

// gru is a step of a GRU. The gates are r, z and n, the state is h.
var gru = cell{3, 1, true, func(d *direction, gates *graph.Value, state []*graph.Value) []*graph.Value {
	b, h := d.c.b, state[0]
	from := d.fromState(h)
	r := ops.Sigmoid(b, ops.Add(b, d.gate(gates, 0), d.gate(from, 0)))
	z := ops.Sigmoid(b, ops.Add(b, d.gate(gates, 1), d.gate(from, 1)))
	n := ops.Tanh(b, ops.Add(b, d.gate(gates, 2), ops.Mul(b, r, d.gate(from, 2))))
	return []*graph.Value{ops.Add(b, n, ops.Mul(b, z, ops.Sub(b, h, n)))}
}}

// direction is a recurrent layer that goes through a sequence one way.
type direction struct {
	c          *context
	units      int          // H
	weight     *graph.Value // of the state, [gates·H, H]
	bias       *graph.Value // added to the state's product; nil where fromInputs has it, or there is none
	fromInputs *graph.Value // the gates' part that comes from the inputs, [T,B,gates·H]
	counts     *graph.Value // where it is 0, states stay as they are, [T,B,1]; nil: nowhere
}

// recurrent goes through x[B,T,D] step by step. It gives [B,T,H], or with Last [B,H];
// with Bidirectional the last axis has both directions.
func (l LSTM) recurrent(c *context, x *graph.Value, cl cell) *graph.Value {
	if !loops(c, x) {
		return x
	}
	byTime, counts := ops.TransposeTo(c.b, x, 1, 0, 2), l.countsByTime(c, x)
	d := l.direction(c, cl, byTime, "")
	d.counts = counts
	last, rows := d.run(cl, d.zeros(cl), false)
	y, end := rows[0], last[0]
	if l.Bidirectional {
		d = l.direction(c, cl, byTime, "_reverse")
		d.counts = counts
		last, rows = d.run(cl, d.zeros(cl), true)
		y, end = ops.ConcatOf(c.b, -1, y, rows[0]), ops.ConcatOf(c.b, -1, end, last[0])
	}
	if l.Last {
		c.sequence = false
	}
	if l.Last || c.b.Err() != nil {
		return end
	}
	return ops.TransposeTo(c.b, y, 1, 0, 2)
}

// countsByTime is 1 where a position of x[B,T,D] counts, [T,B,1]: it is nil where no
// state would be read that has gone through padding, which is at the end.
func (l LSTM) countsByTime(c *context, x *graph.Value) *graph.Value {
	if c.lengths == nil || !c.sequence || !l.Last && !l.Bidirectional {
		return nil
	}
	return ops.TransposeTo(c.b, c.b.One(ops.PositionWeights{T: x.Meta.Shape[1]}, c.lengths), 1, 0, 2)
}

// loops refuses a sequence without positions.
func loops(c *context, x *graph.Value) bool {
	if x.Meta.Shape[1] == 0 {
		c.fail("its input %v has no positions: give it at least one", sample(x))
		return false
	}
	return true
}

// chunked goes through a chunk x[B,T,D] from the states that the chunk before
// ended with.
func (l LSTM) chunked(c *context, x *graph.Value, cl cell) *graph.Value {
	if l.Last || l.Bidirectional {
		c.fail("a model with this layer cannot generate text while last or bidirectional is true, since its outputs then depend on later tokens: set both to false")
		return x
	}
	if !loops(c, x) {
		return x
	}
	d := l.direction(c, cl, ops.TransposeTo(c.b, x, 1, 0, 2), "")
	states, goesOn, places := d.zeros(cl), c.goesOn(x.Meta.Shape[1]), c.places()
	var caches []*graph.Value
	for i, zeros := range states {
		cache := c.variable("cache.state"+strconv.Itoa(i), []int{c.chunk.Places, l.Units}, graph.Cache, graph.Init{})
		caches, states[i] = append(caches, cache), ops.SelectOf(c.b, goesOn, ops.EmbeddingOf(c.b, cache, places), zeros)
	}
	_, rows := d.run(cl, states, false)
	for i, cache := range caches {
		d.keep(cache, rows[i])
	}
	return ops.TransposeTo(c.b, rows[0], 1, 0, 2)
}

// goesOn is the position of the first row of each text's chunk, [B,1]: it is 0 for the first
// chunk of a text alone.
func (c *context) goesOn(rows int) *graph.Value {
	at := ops.SliceOf(c.b, c.b.One(ops.Positions{T: rows}, c.chunkExtent()), []int{0, 0}, []int{c.microbatch, 1})
	return ops.CastTo(c.b, at, "f32")
}

// places is the place of each text in the caches, [B].
func (c *context) places() *graph.Value {
	at := ops.SliceOf(c.b, c.chunkExtent(), []int{0, 2}, []int{c.microbatch, 3})
	return ops.ReshapeTo(c.b, at, c.microbatch)
}

// keep writes states into a cache. states [T,B,H] has one after each row of the chunk; the
// one after the last row that counts is kept.
func (d *direction) keep(cache, states *graph.Value) {
	b := d.c.b
	defer b.InPhase(graph.Update)()
	b.Assign(cache, b.One(ops.StateWrite{}, cache, ops.TransposeTo(b, states, 1, 0, 2), d.c.chunkExtent()))
}

// direction declares the parameters of a direction, and appends the products of the
// inputs x[T,B,D] of all steps, which do not wait for each other.
func (l LSTM) direction(c *context, cl cell, x *graph.Value, suffix string) *direction {
	in, out := x.Meta.Shape.Dim(-1), cl.gates*l.Units
	init := graph.Init{Kind: graph.Uniform, A: 1 / math.Sqrt(float64(l.Units))}
	w := c.param("weight_ih_l0"+suffix, []int{out, in}, init, "weight")
	d := &direction{c: c, units: l.Units, weight: c.param("weight_hh_l0"+suffix, []int{out, l.Units}, init, "weight")}
	d.fromInputs = c.matmul(x, w, true)
	if !l.NoBias {
		d.fromInputs = ops.Add(c.b, d.fromInputs, c.param("bias_ih_l0"+suffix, []int{out}, init, "bias"))
		d.bias = c.param("bias_hh_l0"+suffix, []int{out}, init, "bias")
	}
	if d.bias != nil && !cl.apart {
		d.fromInputs, d.bias = ops.Add(c.b, d.fromInputs, d.bias), nil
	}
	return d
}

// zeros are the states before the first step.
func (d *direction) zeros(cl cell) []*graph.Value {
	states := make([]*graph.Value, cl.states)
	for i := range states {
		states[i] = d.fromInputs
		if d.c.b.Err() == nil {
			states[i] = ops.Const(d.c.b, shape.F32(d.fromInputs.Meta.Shape[1], d.units), 0)
		}
	}
	return states
}

// run goes through the sequence. It gives the last states [B,H], and those behind each
// step [T,B,H].
func (d *direction) run(cl cell, states []*graph.Value, reverse bool) (last, rows []*graph.Value) {
	xs := []*graph.Value{d.fromInputs}
	if d.counts != nil {
		xs = append(xs, d.counts)
	}
	last, rows = ops.Scan(d.c.b, states, xs, ops.ScanOptions{Reverse: reverse},
		func(b *graph.Builder, state, x []*graph.Value) (next, y []*graph.Value) {
			next = cl.step(d, x[0], state)
			for i := range next {
				if d.counts != nil {
					next[i] = ops.SelectOf(b, x[1], next[i], state[i])
				}
			}
			return next, next
		})
	if d.c.b.Err() != nil {
		return states, states
	}
	return last, rows
}

// fromState is the gates' part that comes from a state [B,H].
func (d *direction) fromState(h *graph.Value) *graph.Value {
	y := d.c.matmul(h, d.weight, true)
	if d.bias != nil {
		y = ops.Add(d.c.b, y, d.bias)
	}
	return y
}

// gate is block i of gates [B,gates·H].
func (d *direction) gate(gates *graph.Value, i int) *graph.Value {
	return ops.SliceOf(d.c.b, gates, []int{0, i * d.units}, []int{d.c.microbatch, (i + 1) * d.units})
}
