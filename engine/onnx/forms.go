package onnx

import (
	"maps"
	"math"

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
	for _, some := range []map[string]form{elementwise, products, windows, sums, movements, norms, sequences} {
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
		attrs := append(window(w[2], w[3], op.Stride, op.Pad), Attr{"group", int64(op.Groups)})
		return c.b.Node("Conv", attrs, c.in...)
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
	"batch_norm_eval": {build: func(c *call) string {
		attrs := []Attr{{"epsilon", float32(c.n.Op.(ops.BatchNormEval).Eps)}}
		return c.b.Node("BatchNormalization", attrs, c.in...)
	}},
}

var sequences = map[string]form{
	"causal_attention": {build: (*call).attention},
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

// attention is causal attention by heads, from queries, keys and values side by side.
func (c *call) attention() string {
	op, s := c.n.Op.(ops.CausalSelfAttention), c.n.In[0].Meta.Shape
	d := s[2] / 3
	heads, each := int64(op.Heads), int64(d/op.Heads)
	split := c.b.Append(Node{
		Op: "Split", Attrs: []Attr{{"axis", int64(2)}}, In: []string{c.in[0], c.b.Ints(int64(d), int64(d), int64(d))},
		Out: []string{"queries", "keys", "values"},
	})
	byHead := func(x string, perm ...int64) string {
		x = c.b.Node("Reshape", nil, x, c.b.Ints(0, 0, heads, each)) // 0: as it is
		return c.b.Node("Transpose", []Attr{{"perm", perm}}, x)
	}
	q, k, v := byHead(split[0], 0, 2, 1, 3), byHead(split[1], 0, 2, 3, 1), byHead(split[2], 0, 2, 1, 3)
	q = c.b.Node("Mul", nil, q, c.b.Float(1/math.Sqrt(float64(each))))
	scores := c.b.Node("Add", nil, c.b.Node("MatMul", nil, q, k), c.mask())
	y := c.b.Node("MatMul", nil, c.b.Node("Softmax", []Attr{{"axis", int64(-1)}}, scores), v)
	y = c.b.Node("Transpose", []Attr{{"perm", []int64{0, 2, 1, 3}}}, y)
	return c.b.Node("Reshape", nil, y, c.b.Ints(0, 0, int64(d)))
}

// mask is what is added to scores so that positions see none after them: f32[t,t].
func (c *call) mask() string {
	t := c.sizes(outputShape)[1]
	if c.x.masks[t] == "" {
		never := floats([]int{1}, float32(math.Inf(-1)))
		all := c.b.Node("ConstantOfShape", []Attr{{"value", &never}}, c.vector([]size{t, t}))
		c.x.masks[t] = c.b.Node("Trilu", []Attr{{"upper", int64(1)}}, all, c.b.Int(1))
	}
	return c.x.masks[t]
}
