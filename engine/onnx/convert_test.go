package onnx_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/onnx"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/ort"
)

// own is a layer of any ops.
type own struct {
	build func(b *models.Builder, x *graph.Value) *graph.Value
}

func (l own) Build(b *models.Builder, x *graph.Value) *graph.Value { return l.build(b, x) }

// modelCase is a model and the samples that it takes.
type modelCase struct {
	name    string
	input   shape.Meta // of a sample; of whole numbers below tokens
	layers  models.Stack
	lengths bool
	bf16    bool
	longer  bool // the number of positions is not fixed
}

const tokens = 7

// cases has a model for each form.
func cases() []modelCase {
	pair := func(f func(b *models.Builder, x, y *graph.Value) *graph.Value) models.Stack {
		return models.Stack{models.Dense{Units: 6}, own{func(b *models.Builder, x *graph.Value) *graph.Value {
			half := func(at int) *graph.Value {
				return ops.SliceOf(b.Builder, x, []int{0, at}, []int{x.Meta.Shape[0], at + 3})
			}
			return f(b, half(0), half(3))
		}}}
	}
	one := func(ls ...models.Layer) models.Stack { return ls }
	image, row, text := shape.F32(2, 6, 5), shape.F32(5), shape.I32(6)
	list := []modelCase{
		{name: "mlp", input: image, layers: models.MLP([]int{8}, "relu", 3, graph.Pos{})},
		{name: "cnn", input: shape.F32(1, 8, 8), layers: models.CNN([]int{4, 3}, 3, []int{5}, "gelu", 3, graph.Pos{})},
		{name: "bf16", input: row, layers: models.MLP([]int{8}, "tanh", 3, graph.Pos{}), bf16: true},
		{name: "bf16_images", input: shape.F32(1, 8, 8), layers: models.CNN([]int{4, 3}, 3, []int{5}, "gelu", 3, graph.Pos{}), bf16: true},
		{name: "grouped", input: image, layers: one(models.Conv2D{Channels: 4, Kernel: 3, Stride: 2, Padding: 1, Groups: 2, NoBias: true})},
		{name: "attention bf16", input: shape.F32(6, 8), layers: one(models.GroupedAttention{Heads: 4, KVHeads: 2, Base: 10000}), bf16: true},
		{name: "max_pool", input: image, layers: one(models.MaxPool{Kernel: 3, Stride: 2, Padding: 1})},
		{name: "avg_pool", input: image, layers: one(models.AvgPool{Kernel: 3, Stride: 2, Padding: 1})},
		{name: "global_avg_pool", input: image, layers: one(models.GlobalAvgPool{})},
		{name: "resnet", input: shape.F32(3, 16, 16), layers: models.ResNet(models.ResNetOptions{Depth: 18, Small: true, Width: 2, Outputs: 3}, graph.Pos{})},
		{name: "vit", input: shape.F32(3, 8, 8), layers: models.ViT(models.ViTOptions{Patch: 4, Layers: 2, Heads: 2, Width: 8, Outputs: 3}, graph.Pos{})},
		{name: "dilated", input: shape.F32(2, 9, 8), layers: one(models.Conv2D{Channels: 4, Kernel: 3, Stride: 2, Padding: 2, Dilation: 3})},
		{name: "adaptive_avg_pool", input: image, layers: one(models.AdaptiveAvgPool{Size: []int{4, 5}}, models.AdaptiveAvgPool{Size: []int{2, 2}})},
		{name: "groupnorm", input: shape.F32(4, 3, 2), layers: one(models.GroupNorm{Groups: 2, Eps: 1e-3})},
		{name: "batchnorm", input: image, layers: one(models.Conv2D{Channels: 3, Kernel: 1, Stride: 1, Groups: 1}, models.BatchNorm{Eps: 1e-3})},
		{name: "batchnorm of rows", input: row, layers: one(models.BatchNorm{Eps: 1e-5})},
		{name: "layernorm", input: shape.F32(3, 4), layers: one(models.LayerNorm{Eps: 1e-5})},
		{name: "residual", input: row, layers: one(models.Residual{Layers: one(models.Dense{Units: 5}, models.Tanh{})})},
		{name: "concat", input: row, layers: one(models.Concat{Layers: one(models.Dense{Units: 2})})},
		{name: "movement", input: shape.F32(2, 6), layers: one(models.Reshape{Shape: []int{3, 4}}, models.Transpose{Perm: []int{1, 0}},
			models.Slice{Start: []int{1, 0}, Stop: []int{4, 2}}, models.Reshape{Shape: []int{1, 3, 2}}, models.Broadcast{Shape: []int{4, 3, 2}})},
		{name: "sum", input: image, layers: one(models.Sum{Axes: []int{0, 2}})},
		{name: "mean", input: image, layers: one(models.Mean{Axes: []int{1}, Keep: true})},
		{name: "max", input: image, layers: one(models.Max{Axes: []int{1, 2}})},
		{name: "affine", input: row, layers: one(models.Affine{Scale: 2.5, Shift: -1})},
		{name: "softmax", input: row, layers: one(models.Softmax{})},
		{name: "log_softmax", input: row, layers: one(models.LogSoftmax{})},
		{name: "embedding", input: text, layers: one(models.Embedding{Vocab: tokens, Width: 3}, models.PositionalEmbedding{Context: 9})},
		{name: "lstm", input: shape.F32(4, 3), layers: one(models.LSTM{Units: 5})},
		{name: "lstm both ways", input: shape.F32(4, 3), layers: one(models.LSTM{Units: 5, Bidirectional: true, Last: true})},
		{name: "gru", input: shape.F32(4, 3), layers: one(models.GRU{Units: 5, Bidirectional: true})},
		{name: "gru without bias", input: shape.F32(4, 3), layers: one(models.GRU{Units: 5, Last: true, NoBias: true})},
		{name: "gpt", input: text, layers: models.GPT(models.GPTOptions{Vocab: tokens, Context: 6, Layers: 2, Heads: 2, Width: 8}, graph.Pos{})},
		{name: "untied gpt", input: text, layers: models.GPT(models.GPTOptions{Vocab: tokens, Context: 8, Layers: 1, Heads: 1, Width: 6, Untied: true, Activation: "silu"}, graph.Pos{})},
		{name: "gpt of any length", input: text, longer: true, layers: models.GPT(models.GPTOptions{Vocab: tokens, Context: 6, Layers: 2, Heads: 2, Width: 8}, graph.Pos{})},
		{name: "short gpt", input: shape.I32(2), longer: true, layers: models.GPT(models.GPTOptions{Vocab: tokens, Context: 6, Layers: 2, Heads: 2, Width: 8}, graph.Pos{})},
		{name: "llama", input: text, layers: llama()},
		{name: "llama of any length", input: text, longer: true, layers: llama()},
		{name: "full", input: shape.F32(5, 6), layers: one(models.GroupedAttention{Heads: 4, KVHeads: 1, Size: 4, Full: true, Window: 2}, models.GatedMLP{Hidden: 5, Activation: "gelu"})},
		{name: "full with lengths", input: text, lengths: true, layers: one(models.Embedding{Vocab: tokens, Width: 4}, models.GroupedAttention{Heads: 2, Full: true, Base: 10},
			models.GatedMLP{Hidden: 3, Activation: "gelu_tanh"}, models.Mean{Axes: []int{0}})},
		{name: "lengths", input: text, lengths: true, layers: one(models.Embedding{Vocab: tokens, Width: 4}, models.Attention{Heads: 2}, models.Mean{Axes: []int{0}})},
		{name: "lengths of numbers", input: shape.F32(4, 3), lengths: true, layers: one(models.LSTM{Units: 4}, models.Max{Axes: []int{0}})},
		{name: "lengths in loops", input: shape.F32(4, 3), lengths: true, layers: one(models.GRU{Units: 4, Last: true, Bidirectional: true})},
		{name: "lerp", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value { return b.One(ops.Lerp{T: 0.3}, x, y) })},
		{name: "less", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value {
			return ops.Add(b.Builder, ops.Less(b.Builder, x, y), ops.Equal(b.Builder, x, x))
		})},
		{name: "select", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value {
			return ops.SelectOf(b.Builder, ops.Less(b.Builder, x, y), ops.Div(b.Builder, x, y), ops.Const(b.Builder, shape.F32(3), 2))
		})},
		{name: "rounding", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value {
			return ops.Sub(b.Builder, ops.CastTo(b.Builder, x, "bf16"), ops.CastTo(b.Builder, y, "f16"))
		})},
		{name: "whole numbers", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value {
			whole := func(v *graph.Value) *graph.Value {
				return ops.CastTo(b.Builder, ops.CastTo(b.Builder, v, "i32"), "f32")
			}
			return ops.Add(b.Builder, whole(b.One(ops.Affine{Scale: 3}, x)), // and beyond the ends, and NaN
				ops.Add(b.Builder, whole(b.One(ops.Affine{Scale: 3e12}, y)), whole(ops.Sqrt(b.Builder, x))))
		})},
		{name: "sums to a shape", input: row, layers: pair(func(b *models.Builder, x, y *graph.Value) *graph.Value {
			n := x.Meta.Shape[0]
			both := ops.Mul(b.Builder, ops.ReshapeTo(b.Builder, x, 1, n, 3, 1), ops.ReshapeTo(b.Builder, y, 1, n, 1, 3))
			both = b.One(ops.BroadcastTo{Shape: shape.Of(4, n, 3, 3)}, both)
			sums := ops.ReshapeTo(b.Builder, b.One(ops.SumTo{Shape: shape.Of(n, 1, 3)}, both), n, 3)
			return ops.Add(b.Builder, sums, b.One(ops.SumTo{Shape: shape.Of(n, 3)}, sums))
		})},
		{name: "padding of numbers", input: text, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			column := func(i int) *graph.Value {
				n := x.Meta.Shape[0]
				return ops.ReshapeTo(b.Builder, ops.SliceOf(b.Builder, x, []int{0, i}, []int{n, i + 1}), n)
			}
			return ops.CastTo(b.Builder, b.One(ops.PadWith{Value: 3}, column(0), column(1)), "f32")
		}})},
		{name: "counts", input: text, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			n := x.Meta.Shape[0]
			return ops.Mul(b.Builder, ops.CastTo(b.Builder, ops.ReshapeTo(b.Builder, x, n, 6, 1), "f32"),
				ops.CastTo(b.Builder, ops.Const(b.Builder, shape.I32(n, 1, 1), 4), "f32"))
		}})},
		{name: "pairs of samples", input: row, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			n := x.Meta.Shape[0]
			return ops.ReshapeTo(b.Builder, ops.MatMulOf(b.Builder, x, x, false, true), n, 1, n)
		}})},
		{name: "nothing cut", input: row, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return ops.SliceOf(b.Builder, x, []int{0, 0}, x.Meta.Shape)
		}})},
		{name: "tokens as numbers", input: text, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return ops.CastTo(b.Builder, x, "f32")
		}})},
		{name: "products", input: shape.F32(3, 4), layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return ops.MatMulOf(b.Builder, x, x, true, false)
		}})},
		{name: "samples", input: row, layers: one(own{func(b *models.Builder, x *graph.Value) *graph.Value {
			n, b2 := x.Meta.Shape[0], b.Builder
			twice := ops.ConcatOf(b2, 0, x, ops.Const(b2, shape.F32(n, 5), 1.5)) // [2n,5]
			return ops.ReshapeTo(b2, ops.SliceOf(b2, twice, []int{n, 1}, []int{2 * n, 4}), n, 3, 1)
		}})},
	}
	for _, l := range []models.Layer{models.Relu{}, models.Gelu{}, models.GeluTanh{}, models.Silu{}, models.Sigmoid{}, models.Tanh{}, models.Exp{},
		models.Log{}, models.Sqrt{}, models.Neg{}, models.Abs{}, models.Square{}, models.Rsqrt{}} {
		name := models.Named{Layer: l}.Type()
		before := one(models.Sigmoid{}) // positive numbers
		if slices.Contains([]string{"relu", "gelu", "gelu_tanh", "silu", "abs", "sigmoid"}, name) {
			before = one(models.Dense{Units: 9})
		}
		list = append(list, modelCase{name: name, input: row, layers: append(before, l)})
	}
	return list
}

// llama is a model of Llama's family, of which the second block sees the last 3 positions.
func llama() models.Stack {
	return models.Llama(models.LlamaOptions{
		Vocab: tokens, Context: 99, Layers: 2, Heads: 4, KVHeads: 2, Size: 4, Width: 8, Hidden: 10, Window: 3, Windowed: 1, Eps: 1e-5, Theta: 20, Bias: true}, graph.Pos{})
}

// graphs are those of a case in several sizes.
func (c *modelCase) graphs(t *testing.T) (g onnx.Graphs) {
	t.Helper()
	sized := *c
	if c.longer {
		sized.input = shape.I32(onnx.LongerPositions)
		g.Longer = sized.predict(t, onnx.Few)
		sized.input = shape.I32(onnx.FewPositions)
	}
	g.Few, g.More = sized.predict(t, onnx.Few), sized.predict(t, onnx.More)
	return g
}

// predict is the graph of a case for so many samples.
func (c *modelCase) predict(t *testing.T, samples int) *graph.Graph {
	t.Helper()
	s := models.Spec{Input: c.input, Target: shape.F32(), Loss: "mse", Lengths: c.lengths, BF16: c.bf16}
	for _, l := range c.layers {
		if _, named := l.(models.Named); !named {
			l = models.Named{Layer: l}
		}
		s.Layers = append(s.Layers, l)
	}
	g, err := models.Predict(s, models.Size{Microbatch: samples})
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return g
}

// weights are first contents of a variable, none of which is a constant.
func weights(v *graph.Value) []float32 {
	seed := fnv.New64a()
	seed.Write([]byte(v.Name))
	r := rand.New(rand.NewPCG(seed.Sum64(), 5))
	w := make([]float32, v.Meta.Elems())
	for i := range w {
		if w[i] = float32(r.NormFloat64()) / 2; v.Role == graph.Statistic {
			w[i] = 0.5 + r.Float32()
		}
	}
	return w
}

// write writes the model of a case, and gives its path.
func (c *modelCase) write(t *testing.T) string {
	t.Helper()
	b := onnx.NewBuilder("test")
	dims := []onnx.Dim{{Name: onnx.Batch}}
	for _, d := range c.input.Shape {
		dims = append(dims, onnx.Dim{Size: d})
	}
	if c.longer {
		dims[1] = onnx.Dim{Name: onnx.Positions}
	}
	kind := onnx.Float32
	if c.input.DType == shape.Int32 {
		kind = onnx.Int64
	}
	in := b.Input("input", kind, dims...)
	s := onnx.Source{Samples: in, Inputs: map[string]string{"input": in}, Read: func(v *graph.Value, dst []byte) error {
		copy(dst, shape.Bytes(weights(v)))
		return nil
	}}
	if kind == onnx.Int64 {
		s.Inputs["input"] = b.Cast(in, onnx.Int32)
	}
	if c.lengths {
		s.Inputs["length"] = b.Cast(b.Input("length", onnx.Int64, dims[0]), onnx.Int32)
	}
	out, outDims, err := onnx.Append(b, c.graphs(t), s)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	b.Output("output", out, onnx.Float32, outDims...)
	ort.Check(t, b.Graph())
	path := filepath.Join(t.TempDir(), "m.onnx")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := onnx.Write(f, &onnx.Model{Producer: "test", Graph: b.Graph()}); err != nil {
		t.Fatal(err)
	}
	return path
}

// batch is inputs of so many samples, for ONNX Runtime and for the plain kernels.
func (c *modelCase) batch(samples int) (feeds map[string]ort.Tensor, plain map[string]ref.Array) {
	r := rand.New(rand.NewPCG(uint64(samples), 9))
	dims := append([]int{samples}, c.input.Shape...)
	n := c.input.Elems() * samples
	feeds, plain = map[string]ort.Tensor{}, map[string]ref.Array{}
	if c.input.DType == shape.Int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = r.Int32N(tokens)
		}
		feeds["input"], plain["input"] = ort.Numbers("int64", ids, dims...), ref.Ints(ids, dims...)
	} else {
		x, f := make([]float32, n), make([]float64, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
			f[i] = float64(x[i])
		}
		feeds["input"], plain["input"] = ort.Numbers("float32", x, dims...), ref.Floats(f, dims...)
	}
	if c.lengths {
		lengths := make([]int32, samples)
		for i := range lengths {
			lengths[i] = 1 + r.Int32N(int32(c.input.Shape[0]))
		}
		feeds["length"], plain["length"] = ort.Numbers("int64", lengths, samples), ref.Ints(lengths, samples)
	}
	return feeds, plain
}

// expected is the output of a case by the plain kernels.
func (c *modelCase) expected(t *testing.T, samples int, in map[string]ref.Array) ref.Array {
	t.Helper()
	g := c.predict(t, samples)
	feed := map[*graph.Value]ref.Array{}
	for _, v := range g.Vars {
		a := ref.New(v.Meta)
		for i, w := range weights(v) {
			a.F[i] = float64(w)
		}
		feed[v] = a
	}
	for _, v := range g.Inputs {
		feed[v] = in[v.Name]
	}
	vals, err := ref.Eval(g, feed)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return vals[g.Outputs[0]]
}

// ONNX Runtime computes of each model and batch what the plain kernels do.
func TestModelsGiveTheSameNumbers(t *testing.T) {
	ort.Need(t)
	var jobs []ort.Job
	var names []string
	var want []ref.Array
	for _, c := range cases() {
		path := c.write(t)
		for _, samples := range []int{1, 4} {
			feeds, plain := c.batch(samples)
			jobs, names = append(jobs, ort.Job{Model: path, Feeds: feeds}), append(names, c.name)
			want = append(want, c.expected(t, samples, plain))
		}
	}
	for i, r := range ort.Run(t, jobs) {
		if r.Err != nil {
			t.Errorf("%s: %v", names[i], r.Err)
			continue
		}
		out := r.Outputs["output"]
		if !slices.Equal(out.Dims, want[i].Meta.Shape) {
			t.Errorf("%s: the output is %v, expected %v", names[i], out.Dims, want[i].Meta)
			continue
		}
		for j, y := range out.Floats(t) {
			if b := want[i].F[j]; !(math.Abs(y-b) <= 1e-4+1e-4*math.Abs(b)) && !(math.IsNaN(y) && math.IsNaN(b)) {
				t.Errorf("%s: element %d is %v, expected %v", names[i], j, y, b)
				break
			}
		}
	}
}

// doubled is an op of the program's own.
type doubled struct{}

func init() { ops.Register(1, doubled{}) }

func (doubled) Kind() string                                { return "doubled" }
func (doubled) Infer(in []shape.Meta) ([]shape.Meta, error) { return ops.SameMeta(in, 1) }
func (doubled) Cost(in, out []shape.Meta) graph.Cost        { return ops.CostPerElement(1, in, out) }
func (doubled) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return ops.NoGradient(b, n)
}
func (doubled) Map(y, a, _ []float32) {
	for i, x := range a {
		y[i] = 2 * x
	}
}

// An op without a form, or of which only an output has none, is refused with its layer.
func TestOpsWithoutAFormAreRefused(t *testing.T) {
	c := modelCase{name: "refused", input: shape.F32(4), layers: models.Stack{
		models.Named{Name: "fine", Layer: models.Dense{Units: 3}},
		models.Named{Name: "odd", Pos: graph.Pos{File: "x.yaml", Line: 7}, Layer: own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return b.One(ops.BroadcastTo{Shape: x.Meta.Shape}, b.One(ops.SumSquares{}, x))
		}}},
		models.Named{Name: "share", Layer: own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return b.One(ops.Affine{Scale: 1 / float64(x.Meta.Shape[0])}, x)
		}}},
	}}
	for _, x := range []struct {
		layers models.Stack
		want   string
	}{
		{c.layers[:2], `x.yaml:7: layer 1 (own "odd") uses the op sum_squares`},
		{models.Stack{own{func(b *models.Builder, x *graph.Value) *graph.Value { return b.One(doubled{}, x) }}},
			`layer 0 (own "own0") uses the op doubled that the program registered`},
		{models.Stack{models.Reshape{Shape: []int{1, 2, 2}}, own{func(b *models.Builder, x *graph.Value) *graph.Value {
			return ops.CastTo(b.Builder, b.Apply(ops.MaxPool2D{Kernel: 2, Stride: 2}, x)[1], "f32")
		}}}, `layer 1 (own "own1"): output 1 of the op max_pool2d is used`},
		{models.Stack{c.layers[0], c.layers[2]}, `layer 1 (own "share"): affine{Scale:0.5 Shift:0} depends on the number of samples`},
	} {
		c.layers = x.layers
		_, _, err := onnx.Append(onnx.NewBuilder("x"), c.graphs(t), onnx.Source{Inputs: map[string]string{"input": "input"}})
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("got %v, expected %q", err, x.want)
		}
	}
}
