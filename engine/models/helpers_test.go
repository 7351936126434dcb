package models_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

var at = graph.Pos{File: "configs/x.yaml", Line: 14}

// adamW is the optimizer of the references.
func adamW() optim.Spec {
	return optim.Spec{
		Name:     "adamw",
		Schedule: ops.LearningRate{Schedule: "constant", Base: 1e-3},
	}
}

// train builds a training graph that must build.
func train(t *testing.T, s models.Spec, o optim.Spec, z models.Size) *graph.Graph {
	t.Helper()
	z.Ring = max(1, z.Ring)
	g, err := models.Train(s, o, z)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// state is the contents of variables by name.
type state map[string]ref.Array

// fresh is the first contents of the variables.
func fresh(g *graph.Graph, seed uint64) state {
	st := state{}
	for _, v := range g.Vars {
		a, raw := ref.New(v.Meta), make([]byte, v.Meta.Bytes())
		models.Fill(v, seed, raw)
		if v.Meta.DType.Stored() {
			raw = widened(v.Meta, raw)
		}
		for i, x := range shape.View[float32](raw) {
			if a.F != nil {
				a.F[i] = float64(x)
			}
		}
		st[v.Name] = a
	}
	return st
}

// widened is stored numbers as float32.
func widened(m shape.Meta, raw []byte) []byte {
	x := make([]float32, m.Elems())
	ops.Widen(m, x, raw)
	return shape.Bytes(x)
}

// run computes a microbatch from inputs by name.
func (st state) run(t *testing.T, g *graph.Graph, in state, sums map[*graph.Value]ref.Array) map[*graph.Value]ref.Array {
	t.Helper()
	feed := map[*graph.Value]ref.Array{}
	for _, v := range g.Vars {
		feed[v] = st[v.Name]
	}
	for _, v := range g.Inputs {
		feed[v] = in[v.Name]
	}
	for v, a := range sums {
		feed[v] = a
	}
	vals, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatal(err)
	}
	return vals
}

// outputOf is what a layer makes of a batch when it answers, with the first contents of its
// parameters. err is why it does not take the batch.
func outputOf(t *testing.T, l models.Layer, in ref.Array) (out ref.Array, err error) {
	t.Helper()
	sample := shape.Meta{DType: in.Meta.DType, Shape: in.Meta.Shape[1:]}
	s := models.Spec{Input: sample, Target: shape.F32(1), Loss: "mse", Layers: models.Stack{models.Named{Name: "it", Pos: at, Layer: l}}}
	g, err := models.Predict(s, models.Size{Microbatch: in.Meta.Shape[0]})
	if err != nil {
		return ref.Array{}, err
	}
	return fresh(g, 1).run(t, g, state{models.InputName: in}, nil)[g.Outputs[0]], nil
}

// assign gives the variables their new values.
func (st state) assign(g *graph.Graph, vals map[*graph.Value]ref.Array) {
	for _, a := range g.Assigns {
		st[a.Var.Name] = vals[a.New]
	}
}

// step computes a step of one microbatch.
func (st state) step(t *testing.T, g *graph.Graph, in state) map[*graph.Value]ref.Array {
	t.Helper()
	vals := st.run(t, g, in, nil)
	st.assign(g, vals)
	return vals
}

// find is the first node of a kind.
func find(t *testing.T, g *graph.Graph, kind string) *graph.Node {
	t.Helper()
	for _, n := range g.Nodes {
		if n.Op.Kind() == kind {
			return n
		}
	}
	t.Fatalf("%s has no %s", g.Name, kind)
	return nil
}

// gradients are the values that the optimizer reads, by variable.
func gradients(g *graph.Graph) map[string]*graph.Value {
	grads := map[string]*graph.Value{}
	for _, n := range g.Nodes {
		if k := n.Op.Kind(); k == "sgd" || k == "adam" || k == "lion" {
			grads[n.In[0].Name] = n.In[1]
		}
	}
	return grads
}

// file is a run of PyTorch, see ../ops/ref/testdata/README.md.
type file struct {
	t *testing.T
	*safetensors.File
}

func open(t *testing.T, name string) file {
	t.Helper()
	f, err := safetensors.Open(t.Context(), filepath.Join("..", "ops", "ref", "testdata", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return file{t, f}
}

// array reads a tensor as an array of that element type.
func (f file) array(name string, d shape.DType) ref.Array {
	f.t.Helper()
	info, err := f.Lookup(name)
	if err != nil {
		f.t.Fatal(err)
	}
	a := ref.New(shape.Meta{DType: d, Shape: info.Shape})
	if d == shape.Int32 {
		a.I, err = f.Int32(name)
	} else {
		var raw []float32
		raw, err = f.Float32(name)
		for i, x := range raw {
			a.F[i] = float64(x)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// exact is below the largest element of any gradient but those that are 0 up to rounding,
// as of the biases of keys.
const exact = 1e-9

// agree compares scale*got with want, relative to the largest element.
func agree(t *testing.T, what string, got []float64, scale float64, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, expected %d", what, len(got), len(want))
	}
	largest, worst := 0.0, 0.0
	for i := range want {
		largest = max(largest, math.Abs(want[i]))
		worst = max(worst, math.Abs(scale*got[i]-want[i]))
	}
	if !(worst <= tolerance*max(largest, exact)) {
		t.Errorf("%s is off by %.3g, its largest element is %.3g", what, worst, largest)
	}
}

// noise is reproducible numbers, or tokens below 5.
func noise(seed uint64, m shape.Meta) ref.Array {
	r, a := rand.New(rand.NewPCG(seed, 1)), ref.New(m)
	for i := range a.F {
		a.F[i] = r.NormFloat64()
	}
	for i := range a.I {
		a.I[i] = r.Int32N(5)
	}
	return a
}

// batch puts a batch dimension in front of a sample's metadata.
func batch(n int, m shape.Meta) shape.Meta {
	return shape.Meta{DType: m.DType, Shape: append(shape.Of(n), m.Shape...)}
}

// rows are samples [from, to) of a batch.
func rows(a ref.Array, from, to int) ref.Array {
	size := a.Meta.Shape[1:].Elems()
	out := ref.Array{Meta: batch(to-from, shape.Meta{DType: a.Meta.DType, Shape: a.Meta.Shape[1:]})}
	if a.F != nil {
		out.F = a.F[from*size : to*size]
	} else {
		out.I = a.I[from*size : to*size]
	}
	return out
}
