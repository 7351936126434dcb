package ref_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func scalar(f float64) ref.Array { return ref.Floats([]float64{f}) }
func count(i int32) ref.Array    { return ref.Ints([]int32{i}) }

func compute(t *testing.T, op graph.Op, in ...ref.Array) []ref.Array {
	t.Helper()
	out, err := ref.Run(op, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	ok := slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) })
	if !ok {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// Values by hand, or known to many digits.
func TestValues(t *testing.T) {
	x := ref.Floats([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	for _, c := range []struct {
		name string
		op   graph.Op
		in   []ref.Array
		want []float64
	}{
		{"gelu_tanh", ops.Unary{Fn: "gelu_tanh"}, []ref.Array{scalar(1)}, []float64{0.8411919906082768}},
		{"gelu_erf", ops.Unary{Fn: "gelu_erf"}, []ref.Array{scalar(1)}, []float64{0.8413447460685429}},
		{"silu", ops.Unary{Fn: "silu"}, []ref.Array{scalar(1)}, []float64{0.7310585786300049}},
		{"sub stretches", ops.Binary{Fn: "sub"}, []ref.Array{x, ref.Floats([]float64{1, 2}, 2, 1)}, []float64{0, 1, 2, 2, 3, 4}},
		{"matmul transposed", ops.MatMul{TransA: true}, []ref.Array{x, ref.Floats([]float64{1, 10}, 2, 1)}, []float64{41, 52, 63}},
		{"transpose", ops.Transpose{Perm: []int{1, 0}}, []ref.Array{x}, []float64{1, 4, 2, 5, 3, 6}},
		{"slice", ops.Slice{Start: []int{0, 1}, Stop: []int{2, 3}}, []ref.Array{x}, []float64{2, 3, 5, 6}},
		{"concat", ops.Concat{Axis: 1}, []ref.Array{x, ref.Floats([]float64{7, 8}, 2, 1)}, []float64{1, 2, 3, 7, 4, 5, 6, 8}},
		{"mean", ops.Reduce{Fn: "mean", Axes: []int{0}}, []ref.Array{x}, []float64{2.5, 3.5, 4.5}},
		{"max", ops.Reduce{Fn: "max", Axes: []int{1}}, []ref.Array{x}, []float64{3, 6}},
		{"max of negatives", ops.Reduce{Fn: "max"}, []ref.Array{ref.Floats([]float64{-2, -1}, 2)}, []float64{-1}},
		{"average counts padding", ops.AvgPool2D{Kernel: 2, Stride: 1, Pad: 1}, []ref.Array{ref.Floats([]float64{4}, 1, 1, 1, 1)}, []float64{1, 1, 1, 1}},
		{"max ignores padding", ops.MaxPool2D{Kernel: 2, Stride: 1, Pad: 1}, []ref.Array{ref.Floats([]float64{-4}, 1, 1, 1, 1)}, []float64{-4, -4, -4, -4}},
		{"correct: first of equals", ops.Correct{}, []ref.Array{ref.Floats([]float64{1, 1, 0, 1}, 2, 2), ref.Ints([]int32{1, 1}, 2)}, []float64{1}},
		{"binary correct", ops.BinaryCorrect{}, []ref.Array{ref.Floats([]float64{0, 1, -1}, 3), ref.Floats([]float64{0, 0, 1}, 3)}, []float64{1}},
		{"large logits", ops.CrossEntropy{}, []ref.Array{ref.Floats([]float64{1000, 0}, 2), count(1)}, []float64{1000}},
		{"bce of large logits", ops.BCE{}, []ref.Array{scalar(-1000), scalar(1)}, []float64{1000}},
		{"scatter_add", ops.ScatterAdd{Rows: 3}, []ref.Array{ref.Ints([]int32{2, 0, 2}, 3), ref.Floats([]float64{1, 2, 4}, 3, 1)}, []float64{2, 0, 5}},
		{"ring", ops.RingWrite{Scale: 0.5}, []ref.Array{ref.Floats([]float64{1, 2, 3}, 3), count(4), scalar(8)}, []float64{1, 4, 3}},
		{"clip above", ops.ClipFactor{MaxNorm: 1, Scale: 2}, []ref.Array{scalar(4), scalar(5)}, []float64{1 / (6 + 1e-6)}},
		{"clip below", ops.ClipFactor{MaxNorm: 9, Scale: 2}, []ref.Array{scalar(4), scalar(5)}, []float64{1}},
	} {
		near(t, c.name, compute(t, c.op, c.in...)[0].F, c.want)
	}
}

// The first of equal elements gets the gradient of a maximum.
func TestTies(t *testing.T) {
	x := ref.Floats([]float64{3, 3, 1, 3}, 2, 2)
	y := compute(t, ops.Reduce{Fn: "max", Axes: []int{0}, Keep: true}, x)[0]
	dx := compute(t, ops.ReduceMaxGrad{Axes: []int{0}}, x, y, ref.Floats([]float64{5, 7}, 1, 2))[0]
	near(t, "gradient of max", dx.F, []float64{5, 7, 0, 0})
	idx := compute(t, ops.MaxPool2D{Kernel: 2, Stride: 1}, ref.Floats([]float64{3, 3, 1, 3}, 1, 1, 2, 2))[1]
	if idx.I[0] != 0 {
		t.Errorf("index of the first of equals is %d", idx.I[0])
	}
}

func TestIntegersMove(t *testing.T) {
	x := ref.Ints([]int32{1, 2, 3, 4}, 2, 2)
	for _, c := range []struct {
		op   graph.Op
		want []int32
	}{
		{ops.Transpose{Perm: []int{1, 0}}, []int32{1, 3, 2, 4}},
		{ops.Slice{Start: []int{1, 0}, Stop: []int{2, 2}}, []int32{3, 4}},
		{ops.Reshape{Shape: shape.Of(4)}, []int32{1, 2, 3, 4}},
		{ops.BroadcastTo{Shape: shape.Of(2, 2, 2)}, []int32{1, 2, 3, 4, 1, 2, 3, 4}},
		{ops.Concat{}, []int32{1, 2, 3, 4}},
	} {
		if got := compute(t, c.op, x)[0]; !slices.Equal(got.I, c.want) {
			t.Errorf("%s gives %v, expected %v", graph.OpString(c.op), got.I, c.want)
		}
	}
	filled := compute(t, ops.Fill{Meta: shape.I32(2), Value: 3})[0]
	if !slices.Equal(filled.I, []int32{3, 3}) {
		t.Errorf("filled with %v", filled.I)
	}
}

// Two steps by hand with w = 1, then g = 1 and 0.5; lr 0.1.
func TestSGD(t *testing.T) {
	for _, c := range []struct {
		name string
		op   ops.SGD
		want [2]float64
	}{
		{"plain", ops.SGD{Scale: 1}, [2]float64{0.9, 0.85}},
		{"scaled", ops.SGD{Scale: 2}, [2]float64{0.8, 0.7}},
		{"decay", ops.SGD{Scale: 1, WeightDecay: 0.1}, [2]float64{0.89, 0.8311}},
		{"momentum", ops.SGD{Scale: 1, Momentum: 0.9}, [2]float64{0.9, 0.76}},
		{"nesterov", ops.SGD{Scale: 1, Momentum: 0.9, Nesterov: true}, [2]float64{0.81, 0.634}},
	} {
		w, v := scalar(1), scalar(0)
		for i, g := range []float64{1, 0.5} {
			in := []ref.Array{w, scalar(g), scalar(0.1)}
			if c.op.Momentum > 0 {
				in = append(in, v)
			}
			out := compute(t, c.op, in...)
			w = out[0]
			if c.op.Momentum > 0 {
				v = out[1]
			}
			near(t, c.name, w.F, c.want[i:i+1])
		}
	}
	clipped := compute(t, ops.SGD{Scale: 2, Clip: true}, scalar(1), scalar(1), scalar(0.1), scalar(0.25))
	near(t, "clipped", clipped[0].F, []float64{0.95})
}

// One step by hand: bias correction makes both moments the gradient's own.
func TestAdam(t *testing.T) {
	o := ops.Adam{Beta1: 0.9, Beta2: 0.999, Eps: 0.1, WeightDecay: 0.1, Scale: 1}
	in := []ref.Array{scalar(1), scalar(1), scalar(0), scalar(0), count(0), scalar(0.1)}
	near(t, "coupled", compute(t, o, in...)[0].F, []float64{1 - 0.1*1.1/1.2})
	o.Decoupled = true
	out := compute(t, o, in...)
	near(t, "decoupled", out[0].F, []float64{0.99 - 0.1/1.1})
	near(t, "first moment", out[1].F, []float64{0.1})
	near(t, "second moment", out[2].F, []float64{0.001})
	o.Clip, o.WeightDecay = true, 0
	near(t, "clipped", compute(t, o, append(in, scalar(0.5))...)[0].F, []float64{1 - 0.1*0.5/0.6})
}

func TestLearningRates(t *testing.T) {
	base := ops.LearningRate{Base: 1, Min: 0.2, Gamma: 0.5, Warmup: 4, Total: 12, Every: 3}
	for _, c := range []struct {
		schedule string
		want     map[int32]float64
	}{
		{"constant", map[int32]float64{0: 0.25, 3: 1, 4: 1, 100: 1}},
		{"step", map[int32]float64{0: 0.25, 4: 1, 6: 1, 7: 0.5, 10: 0.25}},
		{"cosine", map[int32]float64{2: 0.75, 4: 1, 8: 0.6, 12: 0.2, 100: 0.2}},
		{"linear", map[int32]float64{1: 0.5, 4: 1, 6: 0.8, 8: 0.6, 12: 0.2, 100: 0.2}},
	} {
		o := base
		o.Schedule = c.schedule
		for step, want := range c.want {
			near(t, c.schedule, compute(t, o, count(step))[0].F, []float64{want})
		}
	}
}

// The mask belongs to an element's place in the global batch: cutting the
// batch does not change it, another step does.
func TestDropoutDependsOnTheGlobalIndex(t *testing.T) {
	o := ops.Dropout{P: 0.25, Seed: 1, ID: 2}
	x := ref.New(shape.F32(8, 5, 3))
	for i := range x.F {
		x.F[i] = 1
	}
	whole := compute(t, o, x, count(3), count(16))[0].F
	half := ref.Floats(x.F[:60], 4, 5, 3)
	parts := slices.Concat(compute(t, o, half, count(3), count(16))[0].F, compute(t, o, half, count(3), count(20))[0].F)
	near(t, "in two parts", parts, whole)
	if next := compute(t, o, x, count(4), count(16))[0].F; slices.Equal(next, whole) {
		t.Error("the next step has the same mask")
	}
	big := ref.New(shape.F32(100, 100))
	for i := range big.F {
		big.F[i] = 1
	}
	sum := 0.0
	for _, v := range compute(t, o, big, count(0), count(0))[0].F {
		if v != 0 && math.Abs(v-4.0/3) > 1e-15 {
			t.Fatalf("an element is %v", v)
		}
		sum += v
	}
	if mean := sum / 1e4; math.Abs(mean-1) > 0.03 { // five standard deviations of sqrt(P/(1-P)/n)
		t.Errorf("the mean is %v", mean)
	}
}

func TestRunTimeErrors(t *testing.T) {
	logits := ref.Floats([]float64{1, 2}, 1, 2)
	for _, c := range []struct {
		op   graph.Op
		in   []ref.Array
		want string
	}{
		{ops.Gather{}, []ref.Array{logits, count(1)}, "gather: id 1 is outside a table of 1 rows"},
		{ops.ScatterAdd{Rows: 2}, []ref.Array{count(-1), ref.Floats([]float64{1}, 1)}, "id -1"},
		{ops.CrossEntropy{}, []ref.Array{logits, ref.Ints([]int32{2}, 1)}, "target 2 of row 0 is outside the 2 classes"},
		{ops.CrossEntropyGrad{}, []ref.Array{logits, ref.Ints([]int32{-1}, 1), ref.Floats([]float64{1}, 1), scalar(1)}, "target -1"},
		{ops.Correct{}, []ref.Array{logits, ref.Ints([]int32{5}, 1)}, "target 5"},
		{ops.CheckFinite{}, []ref.Array{scalar(math.NaN())}, "not finite"},
		{ops.CheckFinite{}, []ref.Array{scalar(math.Inf(-1))}, "not finite"},
		{ops.SumSquares{}, []ref.Array{{Meta: shape.F32(2), F: []float64{1}}}, "f32[2] has 1 floats"},
		{ops.Increment{}, []ref.Array{{Meta: shape.I32(), F: []float64{1}}}, "i32[] has 1 floats and 0 integers"},
		{ops.SumSquares{}, nil, "takes 1 inputs"},
	} {
		if _, err := ref.Run(c.op, c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", c.op.Kind(), err, c.want)
		}
	}
}

func TestEval(t *testing.T) {
	b := graph.NewBuilder("net", 2)
	x := b.Input("x", shape.F32())
	part := ops.Square(b, x)
	sum := b.Accumulate(part, ops.AddOp)
	b.Output("doubled", ops.ScaleBy(b, sum, 2))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	eval := func(feed map[*graph.Value]ref.Array) map[*graph.Value]ref.Array {
		vals, err := ref.Eval(g, feed)
		if err != nil {
			t.Fatal(err)
		}
		return vals
	}
	vals := eval(map[*graph.Value]ref.Array{x: scalar(3)})
	near(t, "from the part", vals[g.Outputs[0]].F, []float64{18})
	near(t, "the sum", vals[sum].F, []float64{9})
	vals = eval(map[*graph.Value]ref.Array{x: scalar(3), sum: scalar(100)})
	near(t, "from a fed sum", vals[g.Outputs[0]].F, []float64{200})
	if _, err := ref.Eval(g, nil); err == nil || !strings.Contains(err.Error(), "reads x f32[], which was not fed") {
		t.Errorf("error %v", err)
	}
	if _, err := ref.Eval(g, map[*graph.Value]ref.Array{x: count(1)}); err == nil || !strings.Contains(err.Error(), "x f32[] is fed i32[]") {
		t.Errorf("error %v", err)
	}
}

// With queries and keys of zero each query weighs all it sees the same, and
// with one-hot values the output is the probabilities after dropout.
func TestAttentionDropout(t *testing.T) {
	const batch, time, heads = 2, 3, 2
	const width, step, base = heads * time, 5, 7
	o := ops.CausalSelfAttention{Heads: heads, P: 0.5, Seed: 1, ID: 2}
	qkv := ref.New(shape.F32(batch, time, 3*width))
	for i := range batch * time {
		for h := range heads {
			qkv.F[i*3*width+2*width+h*time+i%time] = 1
		}
	}
	got := compute(t, o, qkv, count(step), count(base))
	for b := range batch {
		for q := range time {
			for h := range heads {
				for k := range time {
					want := 0.0
					i := (base+b)*heads*time*time + (h*time+q)*time + k
					if k <= q && ops.Kept(o.P, o.Key().At(uint64(i/4), step)[i%4]) {
						want = 2 / float64(q+1)
					}
					near(t, "a probability", got[0].F[((b*time+q)*width + h*time + k):][:1], []float64{want})
				}
				near(t, "lse", got[1].F[(b*heads+h)*time+q:][:1], []float64{math.Log(float64(q + 1))})
			}
		}
	}
}
