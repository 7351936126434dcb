// Package lstm adds a recurrent layer to a trainer, written as a loop: an LSTM whose
// gates see the cell through peepholes (Gers and Schmidhuber, 2000). Gradients,
// pipelines, limits of memory and resuming need no more code. It learns to write like
// Shakespeare, character by character:
//
//	go run ./examples/trainer train examples/lstm/plays.yaml
package lstm

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// peephole is the layer, with its keys in YAML.
type peephole struct {
	Units int `yaml:"units" min:"1" doc:"outputs"`
}

func init() {
	models.RegisterLayer(models.LayerType[peephole]{
		Name: "peephole_lstm", Version: 1, Doc: "An LSTM with peepholes.", Defaults: peephole{Units: 64},
	})
}

// Build makes [batch, time, units] of x, [batch, time, width].
func (k peephole) Build(m *models.Builder, x *graph.Value) *graph.Value {
	b, s := m.Builder, x.Meta.Shape
	init := graph.Init{Kind: graph.Uniform, A: 1 / math.Sqrt(float64(k.Units))}
	input := m.Param("input", []int{4 * k.Units, s[2]}, init)
	state := m.Param("state", []int{4 * k.Units, k.Units}, init)
	bias := m.Param("bias", []int{4 * k.Units}, init, "bias")
	peep := m.Param("peepholes", []int{3, k.Units}, init)

	// The inputs' products wait for no state: one for all steps, with time first.
	inputs := ops.Add(b, m.MatMul(ops.TransposeTo(b, x, 1, 0, 2), input, true), bias)
	zeros := ops.Const(b, shape.F32(s[0], k.Units), 0)
	step := func(b *graph.Builder, carry, x []*graph.Value) (next, y []*graph.Value) {
		h, c := carry[0], carry[1]
		gates := ops.Add(b, x[0], m.MatMul(h, state, true))
		gate := func(i int) *graph.Value {
			return ops.SliceOf(b, gates, []int{0, i * k.Units}, []int{s[0], (i + 1) * k.Units})
		}
		through := func(i int, c *graph.Value) *graph.Value { // peephole i, from cell to gate
			return ops.Mul(b, c, ops.SliceOf(b, peep, []int{i, 0}, []int{i + 1, k.Units}))
		}
		enter := ops.Sigmoid(b, ops.Add(b, gate(0), through(0, c)))
		forget := ops.Sigmoid(b, ops.Add(b, gate(1), through(1, c)))
		c = ops.Add(b, ops.Mul(b, forget, c), ops.Mul(b, enter, ops.Tanh(b, gate(2))))
		h = ops.Mul(b, ops.Sigmoid(b, ops.Add(b, gate(3), through(2, c))), ops.Tanh(b, c))
		return []*graph.Value{h, c}, []*graph.Value{h}
	}
	_, ys := ops.Scan(b, []*graph.Value{zeros, zeros}, []*graph.Value{inputs}, ops.ScanOptions{}, step)
	return ops.TransposeTo(b, ys[0], 1, 0, 2)
}
