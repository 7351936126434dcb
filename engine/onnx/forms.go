package onnx

import (
	"maps"
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// call is a node of a graph that becomes nodes of a model.
type call struct {
	b   *Builder
	x   *converting
	n   *graph.Node
	in  []string // the names of its inputs
	err error
}

// form appends the nodes for an op, and gives its first output.
type form struct {
	build func(c *call) string
	// sized: attributes may be sizes that depend on the number of samples or positions.
	sized bool
}

// forms are the forms of all ops that have one, by their kind.
var forms = map[string]form{}

func init() {
	for _, some := range []map[string]form{elementwise, products, windows, sums, movements, norms, sequences, gates} {
		maps.Copy(forms, some)
	}
}

// plain is the form of an op that ONNX has, too.
func plain(op string, attrs ...Attr) form {
	return form{build: func(c *call) string { return c.b.Node(op, attrs, c.in...) }}
}

var elementwise = map[string]form{
	"add": plain("Add"), "sub": plain("Sub"), "mul": plain("Mul"), "div": plain("Div"),
	"neg": plain("Neg"), "relu": plain("Relu"), "sigmoid": plain("Sigmoid"), "tanh": plain("Tanh"),
	"exp": plain("Exp"), "log": plain("Log"), "sqrt": plain("Sqrt"), "abs": plain("Abs"),
	"rsqrt":  {build: func(c *call) string { return c.b.Node("Reciprocal", nil, c.b.Node("Sqrt", nil, c.in[0])) }},
	"square": {build: func(c *call) string { return c.b.Node("Mul", nil, c.in[0], c.in[0]) }},
	"silu":   {build: func(c *call) string { return c.b.Node("Mul", nil, c.in[0], c.b.Node("Sigmoid", nil, c.in[0])) }},
	"affine": {build: func(c *call) string {
		op := c.n.Op.(ops.Affine)
		return c.add(c.b.Node("Mul", nil, c.in[0], c.b.Float(op.Scale)), op.Shift)
	}},
	"lerp": {build: func(c *call) string {
		way := c.b.Node("Sub", nil, c.in[1], c.in[0])
		return c.b.Node("Add", nil, c.in[0], c.b.Node("Mul", nil, way, c.b.Float(c.n.Op.(ops.Lerp).T)))
	}},
	"gelu_erf": {build: func(c *call) string {
		erf := c.b.Node("Erf", nil, c.b.Node("Mul", nil, c.in[0], c.b.Float(math.Sqrt2/2)))
		return c.half(c.add(erf, 1))
	}},
	"gelu_tanh": {build: func(c *call) string {
		x := c.in[0]
		cube := c.b.Node("Mul", nil, c.b.Node("Mul", nil, x, x), x)
		inner := c.b.Node("Add", nil, x, c.b.Node("Mul", nil, cube, c.b.Float(0.044715)))
		tanh := c.b.Node("Tanh", nil, c.b.Node("Mul", nil, inner, c.b.Float(math.Sqrt(2/math.Pi))))
		return c.half(c.add(tanh, 1))
	}},
	"less":  {build: func(c *call) string { return c.b.Cast(c.b.Node("Less", nil, c.in...), Float32) }},
	"equal": {build: func(c *call) string { return c.b.Cast(c.b.Node("Equal", nil, c.in...), Float32) }},
	"select": {build: func(c *call) string { // a NaN is not 0
		zero := c.b.Node("Equal", nil, c.in[0], c.b.Float(0))
		return c.b.Node("Where", nil, zero, c.in[2], c.in[1])
	}},
	"cast": {build: func(c *call) string {
		switch c.n.Op.(ops.Cast).To {
		case "bf16":
			return c.rounded(c.in[0], BFloat16)
		case "f16":
			return c.rounded(c.in[0], Float16)
		case "i32":
			return c.whole()
		}
		return c.b.Cast(c.in[0], Float32)
	}},
	"fill": {sized: true, build: func(c *call) string {
		op := c.n.Op.(ops.Fill)
		value := floats([]int{1}, float32(op.Value))
		if op.Meta.DType == shape.Int32 {
			value = ints(Int32, []int{1}, int64(op.Value))
		}
		return c.b.Node("ConstantOfShape", []Attr{{"value", &value}}, c.outputSizes())
	}},
}

// add is x + v; x itself if v is 0.
func (c *call) add(x string, v float64) string {
	if v == 0 {
		return x
	}
	return c.b.Node("Add", nil, x, c.b.Float(v))
}

// half is half the input times y.
func (c *call) half(y string) string {
	return c.b.Node("Mul", nil, c.b.Node("Mul", nil, c.in[0], c.b.Float(0.5)), y)
}

// rounded is x rounded to a narrower type.
func (c *call) rounded(x string, t Type) string { return c.b.Cast(c.b.Cast(x, t), Float32) }

// whole is the input as whole numbers: NaN is 0, and large numbers are the nearest that there are. A Cast of
// ONNX defines neither.
func (c *call) whole() string {
	end := func(v int) string { return c.b.Cast(c.b.Int32(v), Float64) } // which float32 does not have exactly
	x := c.b.Node("Where", nil, c.b.Node("IsNaN", nil, c.in[0]), c.b.Float(0), c.in[0])
	return c.b.Cast(c.b.Node("Clip", nil, c.b.Cast(x, Float64), end(math.MinInt32), end(math.MaxInt32)), Int32)
}

// outputSizes is the shape of the output, a vector i64.
func (c *call) outputSizes() string { return c.vector(c.sizes(outputShape)) }

func outputShape(n *graph.Node) []int { return n.Out[0].Meta.Shape }

var products = map[string]form{
	"matmul": {build: func(c *call) string {
		op := c.n.Op.(ops.MatMul)
		x, y := c.in[0], c.in[1]
		if op.BF16 {
			x, y = c.rounded(x, BFloat16), c.rounded(y, BFloat16)
		}
		if op.TransA {
			x = c.swapped(x, c.n.In[0].Meta.Shape.Rank())
		}
		if op.TransB {
			y = c.swapped(y, c.n.In[1].Meta.Shape.Rank())
		}
		return c.b.Node("MatMul", nil, x, y)
	}},
	"conv2d": {build: func(c *call) string {
		op, w := c.n.Op.(ops.Conv2D), c.n.In[1].Meta.Shape
		attrs := append(window(w[2], w[3], op.Stride, op.Pad), Attr{"group", int64(op.Groups)}, Attr{"dilations", []int64{int64(op.Apart()), int64(op.Apart())}})
		in := slices.Clone(c.in)
		for i := range in {
			if op.BF16 {
				in[i] = c.rounded(in[i], BFloat16)
			}
		}
		return c.b.Node("Conv", attrs, in...)
	}},
	"gather": plain("Gather", Attr{"axis", int64(0)}),
}

// swapped exchanges the last two dimensions.
func (c *call) swapped(x string, rank int) string {
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[rank-2], perm[rank-1] = perm[rank-1], perm[rank-2]
	return c.b.Node("Transpose", []Attr{{"perm", perm}}, x)
}

// window are the attributes of an op that goes over an image by windows.
func window(height, width, stride, pad int) []Attr {
	s, p := int64(stride), int64(pad)
	return []Attr{{"kernel_shape", []int64{int64(height), int64(width)}}, {"strides", []int64{s, s}}, {"pads", []int64{p, p, p, p}}}
}

var windows = map[string]form{
	"max_pool2d": {build: func(c *call) string {
		op := c.n.Op.(ops.MaxPool2D)
		return c.b.Node("MaxPool", window(op.Kernel, op.Kernel, op.Stride, op.Pad), c.in...)
	}},
	"avg_pool2d": {build: func(c *call) string {
		op := c.n.Op.(ops.AvgPool2D)
		attrs := append(window(op.Kernel, op.Kernel, op.Stride, op.Pad), Attr{"count_include_pad", int64(1)})
		return c.b.Node("AveragePool", attrs, c.in...)
	}},
}

var sums = map[string]form{
	"reduce_sum": {build: func(c *call) string { // its axes are an input
		axes, keep := c.reduction()
		in := c.in
		if len(axes) > 0 {
			in = append(in, c.b.Ints(axes...))
		}
		return c.b.Node("ReduceSum", keep, in...)
	}},
	"sum_to":      {sized: true, build: (*call).sumTo},
	"reduce_mean": {build: func(c *call) string { return c.reduced("ReduceMean") }},
	"reduce_max":  {build: func(c *call) string { return c.reduced("ReduceMax") }},
}

// sumTo sums over the dimensions in front that the output lacks, and then over those that are 1 there.
func (c *call) sumTo() string {
	in, out := c.n.In[0].Meta.Shape, c.n.Out[0].Meta.Shape
	extra := len(in) - len(out)
	var gone, ones []int64
	for i := range in {
		switch {
		case i < extra:
			gone = append(gone, int64(i))
		case out[i-extra] != in[i]:
			ones = append(ones, int64(i-extra))
		}
	}
	x := c.in[0]
	for keep, axes := range [][]int64{gone, ones} {
		if axes != nil {
			x = c.b.Node("ReduceSum", []Attr{{"keepdims", int64(keep)}}, x, c.b.Ints(axes...))
		}
	}
	return x
}

// reduction is the axes of a reduction, none for all, and its attribute.
func (c *call) reduction() (axes []int64, keep []Attr) {
	op := c.n.Op.(ops.Reduce)
	keep = []Attr{{"keepdims", int64(0)}}
	if op.Keep {
		keep[0].Value = int64(1)
	}
	return wide(op.Axes), keep
}

// reduced is a reduction whose axes are an attribute.
func (c *call) reduced(op string) string {
	axes, attrs := c.reduction()
	if len(axes) > 0 {
		attrs = append(attrs, Attr{"axes", axes})
	}
	return c.b.Node(op, attrs, c.in...)
}

func wide(v []int) []int64 {
	out := make([]int64, len(v))
	for i, x := range v {
		out[i] = int64(x)
	}
	return out
}

var movements = map[string]form{
	"reshape": {sized: true, build: (*call).reshape},
	"transpose": {build: func(c *call) string {
		return c.b.Node("Transpose", []Attr{{"perm", wide(c.n.Op.(ops.Transpose).Perm)}}, c.in...)
	}},
	"slice": {sized: true, build: (*call).slice},
	"concat": {build: func(c *call) string {
		return c.b.Node("Concat", []Attr{{"axis", int64(c.n.Op.(ops.Concat).Axis)}}, c.in...)
	}},
	"broadcast_to": {sized: true, build: func(c *call) string { return c.b.Node("Expand", nil, c.in[0], c.outputSizes()) }},
}

// reshape gives the elements other dimensions. If one of them is not fixed, it follows from
// the others.
func (c *call) reshape() string {
	list := c.sizes(outputShape)
	dims, free, empty := make([]int64, len(list)), 0, false
	for i, s := range list {
		if dims[i] = int64(s.fixed); s.moves() {
			dims[i] = -1
			free++
		}
		empty = empty || dims[i] == 0 // which would mean a dimension of the input
	}
	if free < 2 && !empty {
		return c.b.Node("Reshape", nil, c.in[0], c.b.Ints(dims...))
	}
	return c.b.Node("Reshape", []Attr{{"allowzero", int64(1)}}, c.in[0], c.vector(list))
}

// slice cuts out of the axes that are not whole.
func (c *call) slice() string {
	whole := c.sizes(func(n *graph.Node) []int { return n.In[0].Meta.Shape })
	from := c.sizes(func(n *graph.Node) []int { return n.Op.(ops.Slice).Start })
	to := c.sizes(func(n *graph.Node) []int { return n.Op.(ops.Slice).Stop })
	var axes []int64
	var start, stop []size
	for i := range whole {
		if from[i] != (size{}) || to[i] != whole[i] {
			axes, start, stop = append(axes, int64(i)), append(start, from[i]), append(stop, to[i])
		}
	}
	if axes == nil {
		return c.in[0]
	}
	return c.b.Node("Slice", nil, c.in[0], c.vector(start), c.vector(stop), c.b.Ints(axes...))
}

var norms = map[string]form{
	"softmax":     plain("Softmax", Attr{"axis", int64(-1)}),
	"log_softmax": plain("LogSoftmax", Attr{"axis", int64(-1)}),
	"layer_norm": {build: func(c *call) string {
		attrs := []Attr{{"axis", int64(-1)}, {"epsilon", float32(c.n.Op.(ops.LayerNorm).Eps)}}
		return c.b.Node("LayerNormalization", attrs, c.in...)
	}},
	"rms_norm": {build: func(c *call) string {
		square := c.b.Node("ReduceMean", []Attr{{"keepdims", int64(1)}, {"axes", []int64{-1}}}, c.b.Node("Mul", nil, c.in[0], c.in[0]))
		root := c.b.Node("Sqrt", nil, c.add(square, c.n.Op.(ops.RMSNorm).Eps))
		return c.b.Node("Mul", nil, c.b.Node("Div", nil, c.in[0], root), c.in[1])
	}},
	"batch_norm_eval": {build: func(c *call) string {
		attrs := []Attr{{"epsilon", float32(c.n.Op.(ops.BatchNormEval).Eps)}}
		return c.b.Node("BatchNormalization", attrs, c.in...)
	}},
}

var sequences = map[string]form{
	"attention": {build: (*call).attention},
	"rotary":    {build: (*call).rotary},
	"pad_with": {build: func(c *call) string {
		op, at := c.n.Op.(ops.PadWith), c.n.In[0].Meta.Shape
		if at.Rank() == 1 {
			counts := c.b.Node("Less", nil, c.b.Int32(0), c.in[1])
			return c.b.Node("Where", nil, counts, c.in[0], c.b.Int32(op.Value))
		}
		return c.b.Node("Where", nil, c.counts(at[1], c.in[1]), c.in[0], c.b.Int32(op.Value))
	}},
	"position_weights": {build: func(c *call) string {
		op := c.n.Op.(ops.PositionWeights)
		weights := c.b.Cast(c.counts(op.T, c.in[0]), Float32)
		if op.Mean {
			lengths := c.b.Node("Unsqueeze", nil, c.b.Cast(c.in[0], Float32), c.b.Ints(1))
			weights = c.b.Node("Div", nil, weights, c.b.Node("Max", nil, lengths, c.b.Float(1)))
		}
		return c.b.Node("Unsqueeze", nil, weights, c.b.Ints(2))
	}},
}

// counts says which of the positions of each sequence are no padding, bool[batch,positions].
func (c *call) counts(positions int, lengths string) string {
	at := make([]int64, positions)
	for i := range at {
		at[i] = int64(i)
	}
	places := c.b.constant(ints(Int32, []int{1, positions}, at...))
	return c.b.Node("Less", nil, places, c.b.Node("Unsqueeze", nil, lengths, c.b.Ints(1)))
}

// attention is attention by heads, from queries, keys and values side by side. Where heads
// of queries share keys and values, these have an axis of 1 for them.
func (c *call) attention() string {
	op, s := c.n.Op.(ops.Attention), c.n.In[0].Meta.Shape
	groups, each := int64(op.Groups()), int64(op.Size(s[2]))
	shared := int64(op.Heads) / groups
	factor := func(x string) string {
		if op.BF16 {
			x = c.rounded(x, BFloat16)
		}
		return x
	}
	split := c.b.Append(Node{
		Op: "Split", Attrs: []Attr{{"axis", int64(2)}}, In: []string{factor(c.in[0]), c.b.Ints(int64(op.Heads)*each, groups*each, groups*each)},
		Out: []string{"queries", "keys", "values"},
	})
	byHead := func(x string, shared []int64, perm ...int64) string {
		x = c.b.Node("Reshape", nil, x, c.b.Ints(slices.Concat([]int64{0, 0, groups}, shared, []int64{each})...)) // 0: as it is
		return c.b.Node("Transpose", []Attr{{"perm", perm}}, x)
	}
	var q, k, v string
	back := []int64{0, 2, 1, 3}
	if shared == 1 {
		q, k, v = byHead(split[0], nil, 0, 2, 1, 3), byHead(split[1], nil, 0, 2, 3, 1), byHead(split[2], nil, 0, 2, 1, 3)
	} else {
		q, k, v = byHead(split[0], []int64{shared}, 0, 2, 3, 1, 4), byHead(split[1], []int64{1}, 0, 2, 3, 4, 1), byHead(split[2], []int64{1}, 0, 2, 3, 1, 4)
		back = []int64{0, 3, 1, 2, 4}
	}
	q = c.b.Node("Mul", nil, q, c.b.Float(1/math.Sqrt(float64(each))))
	scores := c.b.Node("MatMul", nil, q, k)
	if mask := c.mask(op.Full, op.Window); mask != "" {
		scores = c.b.Node("Add", nil, scores, mask)
	}
	counts := ""
	if op.Padded {
		counts = c.counts(s[1], c.in[1])
		axes := []int64{1, 2}
		if shared > 1 {
			axes = append(axes, 3)
		}
		scores = c.b.Node("Where", nil, c.b.Node("Unsqueeze", nil, counts, c.b.Ints(axes...)), scores, c.b.Float(math.Inf(-1)))
	}
	y := c.b.Node("MatMul", nil, factor(c.b.Node("Softmax", []Attr{{"axis", int64(-1)}}, scores)), v)
	y = c.b.Node("Transpose", []Attr{{"perm", back}}, y)
	y = c.b.Node("Reshape", nil, y, c.b.Ints(0, 0, int64(op.Heads)*each))
	if op.Padded {
		y = c.b.Node("Where", nil, c.b.Node("Unsqueeze", nil, counts, c.b.Ints(2)), y, c.b.Float(0))
	}
	return y
}

// attentionMask names a mask: which scores of so many positions it hides.
type attentionMask struct {
	positions size
	full      bool
	window    int
}

// mask is what is added to scores so that positions see none after them, and those of their
// window alone: f32[t,t]; empty if they see all.
func (c *call) mask(full bool, window int) string {
	key := attentionMask{c.sizes(outputShape)[1], full, window}
	if made := c.x.masks[key]; made != "" || full && window == 0 {
		return made
	}
	never := floats([]int{1}, float32(math.Inf(-1)))
	all := c.b.Node("ConstantOfShape", []Attr{{"value", &never}}, c.vector([]size{key.positions, key.positions}))
	after := 1
	if full {
		after = window
	}
	mask := c.b.Node("Trilu", []Attr{{"upper", int64(1)}}, all, c.b.Int(int64(after)))
	if window > 0 {
		before := c.b.Node("Trilu", []Attr{{"upper", int64(0)}}, all, c.b.Int(int64(-window)))
		mask = c.b.Node("Add", nil, mask, before)
	}
	c.x.masks[key] = mask
	return mask
}

// rotary turns points. Angles are in float64 until no whole turn is left.
func (c *call) rotary() string {
	op, width := c.n.Op.(ops.Rotary), c.n.In[0].Meta.Shape[2]
	size, turned, half := int64(op.Size), int64(op.Heads*op.Size), int64(op.Size/2)
	places := ""
	if len(c.in) == 2 {
		places = c.in[1]
	} else {
		count := c.vector(c.sizes(outputShape)[1:2])
		places = c.b.Node("Range", nil, c.b.Int(0), c.b.Node("Squeeze", nil, count), c.b.Int(1))
	}
	axes := []int64{1, 2} // [t] to [t,1,1], behind the batch; [batch,t] to [batch,t,1,1]
	if len(c.in) == 2 {
		axes = []int64{2, 3}
	}
	places = c.b.Node("Unsqueeze", nil, c.b.Cast(places, Float64), c.b.Ints(axes...))
	angles := c.b.Node("Mul", nil, places, c.b.Doubles([]int{op.Size / 2}, op.Frequencies()...))
	angles = c.b.Cast(c.b.Node("Mod", []Attr{{"fmod", int64(1)}}, angles, c.b.Doubles(nil, 2*math.Pi)), Float32)
	cos, sin := c.b.Node("Cos", nil, angles), c.b.Node("Sin", nil, angles)
	if op.Inverse {
		sin = c.b.Node("Neg", nil, sin)
	}
	x, rest := c.in[0], int64(width)-turned
	var parts []string
	if rest > 0 {
		parts = c.b.Append(Node{Op: "Split", Attrs: []Attr{{"axis", int64(2)}}, In: []string{x, c.b.Ints(turned, rest)}, Out: []string{"turned", "rest"}})
		x = parts[0]
	}
	x = c.b.Node("Reshape", nil, x, c.b.Ints(0, 0, int64(op.Heads), size))
	point := c.b.Append(Node{Op: "Split", Attrs: []Attr{{"axis", int64(3)}}, In: []string{x, c.b.Ints(half, half)}, Out: []string{"first", "second"}})
	times := func(a, b string) string { return c.b.Node("Mul", nil, a, b) }
	first := c.b.Node("Sub", nil, times(point[0], cos), times(point[1], sin))
	second := c.b.Node("Add", nil, times(point[0], sin), times(point[1], cos))
	y := c.b.Node("Concat", []Attr{{"axis", int64(3)}}, first, second)
	y = c.b.Node("Reshape", nil, y, c.b.Ints(0, 0, turned))
	if rest > 0 {
		y = c.b.Node("Concat", []Attr{{"axis", int64(2)}}, y, parts[1])
	}
	return y
}

var gates = map[string]form{
	"swiglu":     {build: func(c *call) string { return c.gated(elementwise["silu"]) }},
	"geglu":      {build: func(c *call) string { return c.gated(elementwise["gelu_erf"]) }},
	"geglu_tanh": {build: func(c *call) string { return c.gated(elementwise["gelu_tanh"]) }},
}

// gated is a function of the gate, times the other input.
func (c *call) gated(f form) string {
	gate := *c
	gate.in = c.in[:1]
	return c.b.Node("Mul", nil, f.build(&gate), c.in[1])
}
