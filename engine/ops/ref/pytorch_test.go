package ref_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// run is a small training run of PyTorch, see testdata/README.md.
type run struct {
	t    *testing.T
	file *safetensors.File
	b    *graph.Builder
	vars []*graph.Value // in the order in which the model asked for them
}

func openRun(t *testing.T, name string) *run {
	f, err := safetensors.Open(t.Context(), filepath.Join("testdata", name+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &run{t: t, file: f, b: graph.NewBuilder(name, 1)}
}

// array reads a tensor; integers when asked for.
func (r *run) array(name string, ints bool) ref.Array {
	info, err := r.file.Lookup(name)
	if err != nil {
		r.t.Fatal(err)
	}
	if ints {
		i, err := r.file.Int32(name)
		if err != nil {
			r.t.Fatal(err)
		}
		return ref.Ints(i, info.Shape...)
	}
	raw, err := r.file.Float32(name)
	if err != nil {
		r.t.Fatal(err)
	}
	a := ref.New(shape.F32(info.Shape...))
	for i, x := range raw {
		a.F[i] = float64(x)
	}
	return a
}

// weight declares a parameter with the metadata of its first contents.
func (r *run) weight(name string) *graph.Value {
	v := r.b.Var(name, r.array("init."+name, false).Meta, graph.Parameter, graph.Init{})
	r.vars = append(r.vars, v)
	return v
}

// linear is PyTorch's: weight [out, in].
func (r *run) linear(x *graph.Value, name string) *graph.Value {
	y := ops.MatMulOf(r.b, x, r.weight(name+".weight"), false, true)
	return ops.Add(r.b, y, r.weight(name+".bias"))
}

// conv1d is GPT-2's dense layer: weight [in, out].
func (r *run) conv1d(x *graph.Value, name string) *graph.Value {
	y := ops.MatMulOf(r.b, x, r.weight(name+".weight"), false, false)
	return ops.Add(r.b, y, r.weight(name+".bias"))
}

func (r *run) norm(x *graph.Value, name string) *graph.Value {
	return r.b.One(ops.LayerNorm{Eps: 1e-5}, x, r.weight(name+".weight"), r.weight(name+".bias"))
}

func (r *run) mlp(x *graph.Value) *graph.Value {
	x = ops.Relu(r.b, r.linear(x, "layers.0"))
	x = ops.Relu(r.b, r.linear(x, "layers.1"))
	return r.linear(x, "layers.2")
}

func (r *run) cnn(x *graph.Value) *graph.Value {
	for _, name := range []string{"conv1", "conv2"} {
		x = ops.Conv2DOf(r.b, x, r.weight(name+".weight"), 1, 1, 1)
		x = ops.Relu(r.b, ops.Add(r.b, x, ops.ReshapeTo(r.b, r.weight(name+".bias"), -1, 1, 1)))
		x = ops.MaxPool(r.b, x, 2, 2, 0)
	}
	x = ops.ReshapeTo(r.b, x, x.Meta.Shape[0], -1)
	return r.linear(ops.Relu(r.b, r.linear(x, "fc1")), "fc2")
}

func (r *run) gpt(ids *graph.Value) *graph.Value {
	table := r.weight("wte.weight")
	x := ops.Add(r.b, ops.EmbeddingOf(r.b, table, ids), r.weight("wpe.weight"))
	for i := range 2 {
		h := fmt.Sprintf("h.%d.", i)
		a := r.conv1d(r.norm(x, h+"ln_1"), h+"attn.c_attn")
		a = r.b.One(ops.Attention{Heads: 2}, a)
		x = ops.Add(r.b, x, r.conv1d(a, h+"attn.c_proj"))
		m := ops.GeluTanh(r.b, r.conv1d(r.norm(x, h+"ln_2"), h+"mlp.c_fc"))
		x = ops.Add(r.b, x, r.conv1d(m, h+"mlp.c_proj"))
	}
	return ops.MatMulOf(r.b, r.norm(x, "ln_f"), table, false, true)
}

// optimizer appends an update of one weight, given its gradient and the
// variables of the step.
type optimizer func(b *graph.Builder, w, g, step *graph.Value, scale float64)

func sgd(b *graph.Builder, w, g, _ *graph.Value, scale float64) {
	v := b.Var(w.Name+".v", w.Meta, graph.OptState, graph.Init{})
	out := b.Apply(ops.SGD{Momentum: 0.9, Scale: scale}, w, g, ops.Const(b, shape.F32(), 0.05), v)
	b.Assign(w, out[0])
	b.Assign(v, out[1])
}

func adamW(b *graph.Builder, w, g, step *graph.Value, scale float64) {
	m := b.Var(w.Name+".m", w.Meta, graph.OptState, graph.Init{})
	v := b.Var(w.Name+".v", w.Meta, graph.OptState, graph.Init{})
	o := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, WeightDecay: 0.01, Decoupled: true, Scale: scale}
	out := b.Apply(o, w, g, m, v, step, ops.Const(b, shape.F32(), 1e-3))
	b.Assign(w, out[0])
	b.Assign(m, out[1])
	b.Assign(v, out[2])
}

// trainer is a whole training step as one graph, and its variables' contents.
type trainer struct {
	g            *graph.Graph
	logits, loss *graph.Value
	grads        map[*graph.Value]*graph.Value
	feed         map[*graph.Value]ref.Array
}

func (r *run) trainer(ids bool, model func(x *graph.Value) *graph.Value, opt optimizer) *trainer {
	x, y := r.array("input", ids), r.array("target", true)
	input, target := r.b.Input("input", x.Meta), r.b.Input("target", y.Meta)
	step := r.b.Var("step", shape.I32(), graph.Counter, graph.Init{})
	tr := &trainer{grads: map[*graph.Value]*graph.Value{}, feed: map[*graph.Value]ref.Array{input: x, target: y}}
	tr.logits = model(input)
	tr.loss = r.b.One(ops.CrossEntropy{}, tr.logits, target)
	parts := r.b.Gradients(tr.loss, ops.Const(r.b, shape.F32(), 1), r.vars, ops.AddOp)
	for _, w := range r.vars {
		g := parts[w][0]
		for _, p := range parts[w][1:] {
			g = ops.Add(r.b, g, p)
		}
		tr.grads[w] = g
		tr.feed[w] = r.array("init."+w.Name, false)
		opt(r.b, w, g, step, 1/float64(y.Meta.Elems()))
	}
	r.b.Assign(step, r.b.One(ops.Increment{}, step))
	r.b.Output("logits", tr.logits)
	r.b.Output("loss", tr.loss)
	g, err := r.b.Graph()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range g.Vars {
		if v.Role != graph.Parameter {
			tr.feed[v] = ref.New(v.Meta)
		}
	}
	tr.g = g
	return tr
}

// step runs the graph once and assigns the variables.
func (tr *trainer) step(t *testing.T) map[*graph.Value]ref.Array {
	vals, err := ref.Eval(tr.g, tr.feed)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range tr.g.Assigns {
		tr.feed[a.Var] = vals[a.New]
	}
	return vals
}

// agree compares element by element, relative to the largest.
func agree(t *testing.T, what string, got, want []float64, scale, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s has %d elements, expected %d", what, len(got), len(want))
	}
	largest, worst := 0.0, 0.0
	for i := range want {
		largest = max(largest, math.Abs(want[i]))
		worst = max(worst, math.Abs(got[i]*scale-want[i]))
	}
	if !(worst <= tolerance*largest) {
		t.Errorf("%s is off by %.3g of at most %.3g", what, worst, largest)
	}
}

func TestTrainingAgreesWithPyTorch(t *testing.T) {
	for _, name := range []string{"mlp-sgd", "mlp-adamw", "cnn-adamw", "gpt-adamw"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRun(t, name)
			model, opt := map[string]func(*graph.Value) *graph.Value{"mlp": r.mlp, "cnn": r.cnn, "gpt": r.gpt}[name[:3]], adamW
			if strings.HasSuffix(name, "sgd") {
				opt = sgd
			}
			tr := r.trainer(name[:3] == "gpt", model, opt)
			losses := r.array("losses", false)
			scale := 1 / float64(r.array("target", true).Meta.Elems())
			for i := range losses.F {
				vals := tr.step(t)
				agree(t, fmt.Sprintf("loss %d", i), vals[tr.loss].F, losses.F[i:i+1], scale, 1e-5)
				if i > 0 {
					continue
				}
				agree(t, "logits", vals[tr.logits].F, r.array("logits", false).F, 1, 1e-5)
				for _, w := range r.vars {
					agree(t, "gradient of "+w.Name, vals[tr.grads[w]].F, r.array("grad."+w.Name, false).F, scale, 1e-5)
				}
			}
			for _, w := range r.vars { // Adam makes steps of rounding errors where a gradient is 0, as of the bias of keys
				agree(t, "final "+w.Name, tr.feed[w].F, r.array("final."+w.Name, false).F, 1, 1e-3)
			}
		})
	}
}
