package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// testParts: some samples, or some channels, of what an op computes have the bits that they
// have among all, where the node says what whole it is a part of.
func testParts(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2, MemoryBytes: 1 << 26}, func(r *rig) {
		if !r.computes() {
			return
		}
		rapid.Check(t, func(rt *rapid.T) {
			b := graph.NewBuilder("whole", 1)
			n := rapid.SampledFrom(cuttable).Draw(rt, "op")(rt, b).Node
			if _, err := b.Graph(); err != nil {
				rt.Fatal(err)
			}
			cut := func(least, most int) int { return rapid.IntRange(least, most).Draw(rt, "cut") }
			if err := r.compareParts(n, rapid.Uint64().Draw(rt, "seed"), cut); err != nil {
				rt.Fatalf("%v\n%v", err, n)
			}
		})
		// Sizes at which kernels of the parts alone would sum in another order than that of the whole.
		b := graph.NewBuilder("whole", 1)
		attended := b.Apply(ops.Attention{Heads: 2}, b.Input("qkv", shape.F32(8, 300, 48)))
		for _, v := range []*graph.Value{
			b.One(ops.SumTo{Shape: shape.Of(10, 1, 1)}, b.Input("pictures", shape.F32(24, 10, 60, 60))),
			b.One(ops.Conv2DGradW{Of: ops.Conv2D{Stride: 1, Pad: 1, Groups: 1}, KH: 3, KW: 3}, b.Input("x", shape.F32(4, 1, 20, 22)), b.Input("dy", shape.F32(4, 1024, 20, 22))),
			b.One(ops.MatMul{TransA: true}, b.Input("rows", shape.F32(2048, 384)), b.Input("drows", shape.F32(2048, 130))),
			b.One(ops.AttentionGrad{Heads: 2}, attended[0].Node.In[0], b.Input("y", attended[0].Meta), b.Input("lse", attended[1].Meta), b.Input("dy", attended[0].Meta)),
		} {
			if err := r.compareParts(v.Node, 1, func(least, most int) int { return (least + most) / 3 }); err != nil {
				t.Errorf("%v\n%v", err, v.Node)
			}
		}
	})
}

// cuttable build a node of each kind that can be computed in parts.
var cuttable = []func(rt *rapid.T, b *graph.Builder) *graph.Value{
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		fn := rapid.SampledFrom([]string{"relu", "tanh", "gelu_tanh", "silu", "square"}).Draw(rt, "function")
		return b.One(ops.Unary{Fn: fn}, images(rt, b))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		fn := rapid.SampledFrom([]string{"relu", "tanh", "gelu_tanh", "silu"}).Draw(rt, "function")
		return b.One(ops.UnaryGrad{Fn: fn}, x, b.Input("dy", x.Meta))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		y := b.Input("y", x.Meta)
		switch op := rapid.SampledFrom([]graph.Op{
			ops.Affine{Scale: 3, Shift: 2}, ops.Select{}, ops.Lerp{T: 0.3}, ops.Gated{Fn: "swiglu"}, ops.Gated{Fn: "geglu"}, ops.Compare{Fn: "less"},
			ops.Binary{Fn: "sub"}, ops.Binary{Fn: "mul"}, ops.Binary{Fn: "div"},
		}).Draw(rt, "op"); op.(type) {
		case ops.Affine:
			return b.One(op, x)
		case ops.Select:
			return b.One(op, x, y, b.Input("z", x.Meta))
		default:
			return b.One(op, x, y)
		}
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := b.Input("x", shape.F32(size(rt, "rows", 40), size(rt, "width", 100)))
		return b.Apply(ops.RMSNorm{Eps: 1e-5}, x, b.Input("gamma", shape.F32(x.Meta.Shape[1])))[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		return ops.Add(b, x, b.Input("bias", shape.F32(x.Meta.Shape[1], 1, 1)))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		return ops.ReshapeTo(b, x, x.Meta.Shape[0], -1)
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := normed(rt, b)
		c := shape.F32(x.Meta.Shape[1])
		return b.Apply(ops.BatchNorm{Eps: 1e-5}, x, b.Input("gamma", c), b.Input("beta", c))[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := normed(rt, b)
		c := shape.F32(x.Meta.Shape[1])
		in := []*graph.Value{x, b.Input("gamma", c), b.Input("mean", c), b.Input("rstd", c), b.Input("dy", x.Meta)}
		return b.Apply(ops.BatchNormGrad{}, in...)[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := normed(rt, b)
		c := shape.F32(x.Meta.Shape[1])
		return b.One(ops.BatchNormEval{Eps: 10}, x, b.Input("gamma", c), b.Input("beta", c), b.Input("mean", c), b.Input("var", c))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		return ops.ReshapeTo(b, x, x.Meta.Shape[0]*x.Meta.Shape[1], -1)
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		s := shape.Of(size(rt, "rows", 900), size(rt, "columns", 700))
		if rapid.Bool().Draw(rt, "positions") {
			s = shape.Of(size(rt, "samples", 12), size(rt, "positions", 90), s[1])
		}
		return b.One(ops.SumTo{Shape: s[len(s)-1:]}, b.Input("x", shape.F32(s...)))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		k := size(rt, "kernel", min(3, x.Meta.Shape[2], x.Meta.Shape[3]))
		return b.One(ops.AvgPool2D{Kernel: k, Stride: k}, x)
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := images(rt, b)
		k := size(rt, "kernel", min(3, x.Meta.Shape[2], x.Meta.Shape[3]))
		return b.Apply(ops.MaxPool2D{Kernel: k, Stride: k}, x)[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		dy := images(rt, b)
		h, w := dy.Meta.Shape[2]+1, 2*dy.Meta.Shape[3]
		return b.One(ops.MaxPool2DGrad{H: h, W: w}, b.Input("idx", shape.I32(dy.Meta.Shape...)), dy)
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := b.Input("x", shape.F32(size(rt, "rows", 40), size(rt, "steps", 600)))
		trans := rapid.Bool().Draw(rt, "transposed")
		y := shape.F32(x.Meta.Shape[1], size(rt, "columns", 40))
		if trans {
			y = shape.F32(y.Shape[1], y.Shape[0])
		}
		return b.One(ops.MatMul{TransB: trans}, x, b.Input("w", y))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		rows := size(rt, "rows", 600)
		x := b.Input("x", shape.F32(rows, size(rt, "features", 90)))
		return b.One(ops.MatMul{TransA: true, BF16: rapid.Bool().Draw(rt, "bf16")}, x, b.Input("dy", shape.F32(rows, size(rt, "columns", 90))))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := b.Input("x", shape.F32(size(rt, "rows", 40), size(rt, "width", 100)))
		w := shape.F32(x.Meta.Shape[1])
		return b.Apply(ops.LayerNorm{Eps: 1e-5}, x, b.Input("gamma", w), b.Input("beta", w))[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		op, in := drawAttention(rt, b)
		return b.Apply(op, in...)[0]
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		op, in := drawAttention(rt, b)
		out, err := op.Infer(metasOf(in))
		if err != nil {
			rt.Fatal(err)
		}
		made := []*graph.Value{in[0], b.Input("y", out[0]), b.Input("lse", out[1]), b.Input("dy", out[0])}
		return b.One(ops.AttentionGrad(op), append(made, in[1:]...)...)
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		c := drawConv(rt)
		return b.One(c.op, b.Input("x", c.x), b.Input("w", c.w))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		c := drawConv(rt)
		op := ops.Conv2DGradX{Of: c.op, H: c.x.Shape[2], W: c.x.Shape[3]}
		return b.One(op, b.Input("w", c.w), b.Input("dy", c.y))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		c := drawConv(rt)
		op := ops.Conv2DGradW{Of: c.op, KH: c.w.Shape[2], KW: c.w.Shape[3]}
		return b.One(op, b.Input("x", c.x), b.Input("dy", c.y))
	},
	func(rt *rapid.T, b *graph.Builder) *graph.Value {
		x := b.Input("x", shape.F32(size(rt, "samples", 24), size(rt, "channels", 12), size(rt, "height", 64), size(rt, "width", 64)))
		return b.One(ops.SumTo{Shape: shape.Of(x.Meta.Shape[1], 1, 1)}, x)
	},
}

func size(rt *rapid.T, name string, most int) int { return rapid.IntRange(1, most).Draw(rt, name) }

// images is an input of pictures.
func images(rt *rapid.T, b *graph.Builder) *graph.Value {
	return b.Input("x", shape.F32(size(rt, "samples", 24), size(rt, "channels", 12), size(rt, "height", 20), size(rt, "width", 20)))
}

// normed is an input of pictures, or of rows, with so many samples that kernels share them.
func normed(rt *rapid.T, b *graph.Builder) *graph.Value {
	s := shape.Of(size(rt, "samples", 600), size(rt, "channels", 90))
	if rapid.Bool().Draw(rt, "pictures") {
		side := size(rt, "side", 7)
		s = shape.Of(1+s[0]/20, s[1], side, side)
	}
	return b.Input("x", shape.F32(s...))
}

// mostPositions is the most positions of a sequence.
const mostPositions = 90

// drawAttention draws attention without dropout, and its inputs.
func drawAttention(rt *rapid.T, b *graph.Builder) (op ops.Attention, in []*graph.Value) {
	op.KVHeads = size(rt, "heads of keys", 3)
	op.Heads = op.KVHeads * size(rt, "heads of queries for each", 3)
	samples, positions := size(rt, "samples", 12), size(rt, "positions", mostPositions)
	in = []*graph.Value{b.Input("qkv", shape.F32(samples, positions, (op.Heads+2*op.KVHeads)*size(rt, "width", 40)))}
	op.Window = rapid.IntRange(0, 20).Draw(rt, "window")
	switch rapid.SampledFrom([]string{"causal", "full", "padded", "packed"}).Draw(rt, "kind") {
	case "full":
		op.Full = true
	case "padded":
		op.Padded = true
		in = append(in, b.Input("lengths", shape.I32(samples)))
	case "packed":
		op.Packed = true
		in = append(in, b.Input("positions", shape.I32(samples, positions)))
	}
	return op, in
}

func metasOf(in []*graph.Value) (metas []shape.Meta) {
	for _, v := range in {
		metas = append(metas, v.Meta)
	}
	return metas
}

// conv is a convolution with the metadata of its tensors.
type conv struct {
	op      ops.Conv2D
	x, w, y shape.Meta
}

func drawConv(rt *rapid.T) conv {
	c := conv{op: ops.Conv2D{Stride: size(rt, "stride", 2), Pad: rapid.IntRange(0, 1).Draw(rt, "padding"), Groups: 1, BF16: rapid.Bool().Draw(rt, "bf16")}}
	in, out, k := size(rt, "in", 34), size(rt, "out", 40), size(rt, "kernel", 3)
	if rapid.IntRange(0, 3).Draw(rt, "depthwise") == 0 {
		out, c.op.Groups = in, in
	}
	c.x = shape.F32(size(rt, "samples", 24), in, k+rapid.IntRange(0, 12).Draw(rt, "height"), k+rapid.IntRange(0, 40).Draw(rt, "width"))
	c.w = shape.F32(out, in/c.op.Groups, k, k)
	y, err := c.op.Infer([]shape.Meta{c.x, c.w})
	if err != nil {
		rt.Fatal(err)
	}
	c.y = y[0]
	return c
}

// compareParts runs a node, and two parts of it that meet where cut says. Numbers that are summed
// nearly cancel out, so that the order of the sum shows.
func (r *rig) compareParts(n *graph.Node, seed uint64, cut func(least, most int) int) error {
	random := rand.New(rand.NewPCG(seed, 1))
	data := make([][]float32, len(n.In))
	for i, v := range n.In {
		data[i] = make([]float32, v.Meta.Elems())
		for k := range data[i] {
			if data[i][k] = float32(random.NormFloat64()); v.Meta.DType == shape.Int32 {
				data[i][k] = math.Float32frombits(random.Uint32N(numbers(v)))
			}
		}
		if half := len(data[i]) / 2; n.Op.Kind() == "sum_to" {
			for k := range half {
				if k%7 > 0 {
					data[i][k] *= 1e12
					data[i][half+k] = -data[i][k]
				}
			}
		}
	}
	want, err := r.runNode(n, data)
	if err != nil {
		return err
	}
	for _, by := range cutsOf(n) {
		all := n.Out[0].Meta.Shape[by.out[0]] / by.each
		if all < 2*by.least {
			continue
		}
		at := cut(by.least, all-by.least)
		for _, part := range [][2]int{{0, at}, {at, all}} {
			if err := r.comparePart(n, data, want, by, part[0], part[1]); err != nil {
				return fmt.Errorf("in parts of %d and %d along axis %d: %w", at, all-at, by.out[0], err)
			}
		}
	}
	return nil
}

// oneCut is a way to cut a node: the axis of each input that is cut, -1 for none, and of each result.
type oneCut struct {
	in    []int
	out   []int
	each  int // indices of the result for each of the inputs: more than one where samples become rows
	least int // indices of a part of the inputs
	op    func(op graph.Op, count int) graph.Op
}

// cutsOf lists the ways to cut a node: none, as of a gradient of weights in groups, or one or two.
func cutsOf(n *graph.Node) (list []oneCut) {
	if samples, ok := ops.BySamples(n); ok {
		by := oneCut{out: make([]int, len(n.Out)), least: 1, each: 1, op: ops.OfSamples}
		for i, cut := range samples {
			axis := -1
			if cut {
				axis, by.each = 0, n.Out[0].Meta.Shape[0]/n.In[i].Meta.Shape[0]
			}
			by.in = append(by.in, axis)
		}
		return []oneCut{by}
	}
	for i, way := range ops.ByChannels(n) {
		by := oneCut{in: way.In, out: way.Out, each: 1, least: 2, op: ops.OfChannels}
		if i > 0 {
			by.op = func(op graph.Op, _ int) graph.Op { return op }
		}
		list = append(list, by)
	}
	return list
}

// comparePart runs indices lo to hi-1 of the inputs of a node, of which want are the results.
func (r *rig) comparePart(n *graph.Node, data, want [][]float32, by oneCut, lo, hi int) error {
	p := &graph.Node{Op: by.op(n.Op, (hi-lo)*by.each), Part: &graph.Part{Of: n}}
	in := make([][]float32, len(n.In))
	metas := make([]shape.Meta, len(n.In))
	for i, v := range n.In {
		metas[i], in[i] = v.Meta, data[i]
		if axis := by.in[i]; axis >= 0 {
			metas[i], in[i] = between(v.Meta, data[i], axis, lo, hi)
		}
		p.In = append(p.In, &graph.Value{ID: i, Name: v.Name, Kind: graph.Input, Meta: metas[i]})
	}
	outs, err := p.Op.Infer(metas)
	if err != nil {
		return err
	}
	for i, m := range outs {
		p.Out = append(p.Out, &graph.Value{ID: len(p.In) + i, Name: fmt.Sprint("out", i), Meta: m, Node: p, Out: i})
	}
	got, err := r.runNode(p, in)
	if err != nil {
		return err
	}
	for k, v := range n.Out {
		got := got[k]
		_, want := between(v.Meta, want[k], by.out[k], lo*by.each, hi*by.each)
		for i := range want {
			if !sameBits(got[i:i+1], want[i:i+1]) {
				return fmt.Errorf("element %d of result %d of indices %d to %d is %v, and %v in the whole", i, k, lo, hi-1, got[i], want[i])
			}
		}
	}
	return nil
}

// numbers is how many numbers an input of integers has: pixels of a plane, or lengths and positions of a sequence.
func numbers(v *graph.Value) uint32 {
	if v.Meta.Shape.Rank() == 4 {
		return uint32(v.Meta.Shape[2] * v.Meta.Shape[3])
	}
	return mostPositions
}

// runNode is the results of a node whose inputs differ.
func (r *rig) runNode(n *graph.Node, data [][]float32) (results [][]float32, err error) {
	g := &graph.Graph{Name: "node", Nodes: []*graph.Node{n}, Inputs: n.In, Outputs: n.Out}
	x, err := r.d.Compile(g, device.CompileOptions{})
	if err != nil {
		return nil, err
	}
	defer x.Release()
	var in, out []device.Buffer
	for i, v := range n.In {
		in = append(in, r.alloc(v.Meta))
		r.put(in[i], data[i])
	}
	for _, v := range n.Out {
		out = append(out, r.alloc(v.Meta))
	}
	r.launch(x, in, out)
	for _, b := range out {
		results = append(results, r.get(b))
	}
	r.sync(r.s)
	r.drop(append(in, out...)...)
	return results, nil
}

// between is indices lo to hi-1 of an axis of a tensor.
func between(m shape.Meta, data []float32, axis, lo, hi int) (shape.Meta, []float32) {
	s := m.Shape.Clone()
	outer, n := s[:axis].Elems(), s[axis]
	s[axis] = hi - lo
	inner := len(data) / (outer * n)
	var part []float32
	for o := range outer {
		part = append(part, data[(o*n+lo)*inner:(o*n+hi)*inner]...)
	}
	return shape.Meta{DType: m.DType, Shape: s}, part
}
