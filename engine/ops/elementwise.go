package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// elementwiseOps lists the rows of the op table that are in this file: the
// binary and unary functions, the gradients that have an op of their own, and
// the rest.
func elementwiseOps() []graph.Op {
	all := []graph.Op{AddOp, Binary{"sub"}, Binary{"mul"}, Binary{"div"}, Affine{}, Lerp{}, Fill{}}
	for fn := range unaries {
		all = append(all, Unary{fn})
		if fn != "neg" {
			all = append(all, UnaryGrad{fn})
		}
	}
	return all
}

// Binary is y = a Fn b with NumPy's broadcasting; Fn is add, sub, mul or div
// and is the op's kind.
type Binary struct{ Fn string }

// AddOp adds. Gradients and microbatches are summed with it. It is an Op already, so that to
// pass it allocates nothing.
var AddOp graph.Op = Binary{"add"}

// Kind is Fn.
func (o Binary) Kind() string { return o.Fn }

// Infer broadcasts the two inputs.
func (o Binary) Infer(in []shape.Meta) ([]shape.Meta, error) {
	switch o.Fn {
	case "add", "sub", "mul", "div":
	default:
		return nil, fmt.Errorf("no binary function %q: use add, sub, mul or div", o.Fn)
	}
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	s, err := shape.Broadcast(in[0].Shape, in[1].Shape)
	if err != nil {
		return nil, err
	}
	return one(f32(s)), nil
}

// Grad sums each side's gradient over the dimensions that broadcasting stretched.
func (o Binary) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x, y, d := n.In[0], n.In[1], dy[0]
	dx, dz := d, d
	switch o.Fn {
	case "sub":
		dz = Neg(b, d)
	case "mul":
		dx, dz = Mul(b, d, y), Mul(b, d, x)
	case "div":
		dx = Div(b, d, y)
		dz = Neg(b, Mul(b, dx, n.Out[0])) // d(x/y)/dy = -(x/y)/y
	}
	return []*graph.Value{SumToShape(b, dx, x.Meta.Shape), SumToShape(b, dz, y.Meta.Shape)}
}

// Cost is one operation per element.
func (o Binary) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, out[0].Elems(), in, out) }

// Alias lets y take over a's memory. A device must check that a was not stretched:
// only then do the sizes agree.
func (o Binary) Alias() []int { return []int{0} }

// Unary is y = Fn(x); Fn is neg, relu, gelu_tanh, gelu_erf, silu, sigmoid,
// tanh, exp, log, sqrt, rsqrt, square or abs and is the op's kind.
type Unary struct{ Fn string }

// unaries has the cost of each unary function, and whether its gradient reads the
// output; otherwise it reads the input.
var unaries = map[string]struct {
	flops  int
	output bool
}{
	"neg": {1, false}, "relu": {1, true}, "gelu_tanh": {14, false}, "gelu_erf": {14, false}, "silu": {12, false},
	"sigmoid": {10, true}, "tanh": {10, true}, "exp": {8, true}, "log": {8, false}, "sqrt": {1, true},
	"rsqrt": {2, true}, "square": {1, false}, "abs": {1, false},
}

// Kind is Fn.
func (o Unary) Kind() string { return o.Fn }

// Infer keeps the input's metadata.
func (o Unary) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if _, ok := unaries[o.Fn]; !ok {
		return nil, fmt.Errorf("no unary function %q: use one of %s", o.Fn, strings.Join(slices.Sorted(maps.Keys(unaries)), ", "))
	}
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	return one(in[0]), nil
}

// Grad is [UnaryGrad] of the tensor that the function's gradient reads.
func (o Unary) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if o.Fn == "neg" {
		return []*graph.Value{Neg(b, dy[0])}
	}
	a := n.In[0]
	if unaries[o.Fn].output {
		a = n.Out[0]
	}
	if idx, pooled, d, op := largestOf(a, dy[0]); o.Fn == "relu" && pooled != nil {
		return []*graph.Value{b.One(op, idx, b.One(UnaryGrad(o), pooled, d))}
	}
	return []*graph.Value{b.One(UnaryGrad(o), a, dy[0])}
}

// largestOf is the inputs of the gradient dx, if that is one of max pooling of x alone, and what that pooled; nil otherwise.
// The gradient reaches the largest elements only, and these are what was pooled: where a function of x has a gradient that
// is dy or 0, it may as well be computed before dy is spread, from what was pooled if that is fewer numbers. x need not be kept.
func largestOf(x, dx *graph.Value) (idx, pooled, dy *graph.Value, op MaxPool2DGrad) {
	if dx.Node == nil {
		return nil, nil, nil, op
	}
	op, ok := dx.Node.Op.(MaxPool2DGrad)
	if !ok {
		return nil, nil, nil, op
	}
	idx, dy = dx.Node.In[0], dx.Node.In[1]
	if idx.Node == nil || idx.Node.In[0] != x {
		return nil, nil, nil, op
	}
	pooled = idx.Node.Out[0]
	if _, ok := idx.Node.Op.(MaxPool2D); !ok || pooled.Meta.Elems() >= x.Meta.Elems() {
		return nil, nil, nil, op
	}
	return idx, pooled, dy, op
}

// Cost counts a transcendental function as about ten operations.
func (o Unary) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(unaries[o.Fn].flops, out[0].Elems(), in, out)
}

// Alias lets y take over x's memory.
func (o Unary) Alias() []int { return []int{0} }

// UnaryGrad is dx = Fn'(x) * dy from (a, dy). a is the function's output for
// relu, sigmoid, tanh, exp, sqrt and rsqrt, its input for gelu_tanh, gelu_erf,
// silu, log, square and abs. Its kind is Fn+"_grad". Where a function has a
// kink its slope there is 0.
type UnaryGrad struct{ Fn string }

// Kind is Fn + "_grad".
func (o UnaryGrad) Kind() string { return o.Fn + "_grad" }

// Infer wants two equal shapes.
func (o UnaryGrad) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if _, ok := unaries[o.Fn]; !ok || o.Fn == "neg" {
		return nil, fmt.Errorf("no gradient of a unary function %q", o.Fn)
	}
	return sameShapes(in)
}

// Grad fails: see noSecond.
func (o UnaryGrad) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is a little more than the function's.
func (o UnaryGrad) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(unaries[o.Fn].flops+1, out[0].Elems(), in, out)
}

// Alias lets dx take over dy's memory.
func (o UnaryGrad) Alias() []int { return []int{1} }

// Affine is y = x*Scale + Shift.
type Affine struct{ Scale, Shift float64 }

// Kind is "affine".
func (o Affine) Kind() string { return "affine" }

// Infer keeps the input's metadata.
func (o Affine) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 1); err != nil {
		return nil, err
	}
	return one(in[0]), nil
}

// Grad scales.
func (o Affine) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ScaleBy(b, dy[0], o.Scale)}
}

// Cost is a multiply-add per element.
func (o Affine) Cost(in, out []shape.Meta) graph.Cost { return perElem(2, out[0].Elems(), in, out) }

// Alias lets y take over x's memory.
func (o Affine) Alias() []int { return []int{0} }

// Lerp is y = a + T*(b-a) from (a, b) of one shape: running averages.
type Lerp struct{ T float64 }

// Kind is "lerp".
func (o Lerp) Kind() string { return "lerp" }

// Infer wants two equal shapes.
func (o Lerp) Infer(in []shape.Meta) ([]shape.Meta, error) { return sameShapes(in) }

// Grad splits dy in the proportions of the mix.
func (o Lerp) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{ScaleBy(b, dy[0], 1-o.T), ScaleBy(b, dy[0], o.T)}
}

// Cost is three operations per element.
func (o Lerp) Cost(in, out []shape.Meta) graph.Cost { return perElem(3, out[0].Elems(), in, out) }

// Alias lets y take over a's memory.
func (o Lerp) Alias() []int { return []int{0} }

// Fill makes a tensor of one value from no inputs.
type Fill struct {
	Meta  shape.Meta
	Value float64
}

// Kind is "fill".
func (o Fill) Kind() string { return "fill" }

// Infer is the attribute itself.
func (o Fill) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 0); err != nil {
		return nil, err
	}
	if o.Meta.DType != shape.Float32 && o.Meta.DType != shape.Int32 {
		return nil, fmt.Errorf("cannot fill %v: use f32 or i32", o.Meta)
	}
	return one(o.Meta), nil
}

// Grad has no inputs to flow into.
func (o Fill) Grad(_ *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noGrad(n)
}

// Cost counts the write, and a scalar's as one operation.
func (o Fill) Cost(in, out []shape.Meta) graph.Cost { return perElem(0, 0, in, out) }

// sameShapes is the rule of ops on two float32 tensors of one shape.
func sameShapes(in []shape.Meta) ([]shape.Meta, error) {
	if err := floats(in, 2); err != nil {
		return nil, err
	}
	if !in[0].Equal(in[1]) {
		return nil, fmt.Errorf("inputs are %v and %v, expected one shape", in[0], in[1])
	}
	return one(in[0]), nil
}

// Add is x + y.
func Add(b *graph.Builder, x, y *graph.Value) *graph.Value { return b.One(AddOp, x, y) }

// Sub is x - y.
func Sub(b *graph.Builder, x, y *graph.Value) *graph.Value { return b.One(Binary{"sub"}, x, y) }

// Mul is x * y, element by element.
func Mul(b *graph.Builder, x, y *graph.Value) *graph.Value { return b.One(Binary{"mul"}, x, y) }

// Div is x / y.
func Div(b *graph.Builder, x, y *graph.Value) *graph.Value { return b.One(Binary{"div"}, x, y) }

// Neg is -x.
func Neg(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"neg"}, x) }

// Relu is max(x, 0).
func Relu(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"relu"}, x) }

// GeluTanh is x/2 (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3))), as GPT-2 has it.
func GeluTanh(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"gelu_tanh"}, x) }

// GeluErf is x/2 (1 + erf(x/sqrt 2)).
func GeluErf(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"gelu_erf"}, x) }

// Silu is x * sigmoid(x).
func Silu(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"silu"}, x) }

// Sigmoid is 1/(1+exp(-x)).
func Sigmoid(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"sigmoid"}, x) }

// Tanh is the hyperbolic tangent.
func Tanh(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"tanh"}, x) }

// Exp is e^x.
func Exp(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"exp"}, x) }

// Log is the natural logarithm.
func Log(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"log"}, x) }

// Sqrt is the square root.
func Sqrt(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"sqrt"}, x) }

// Rsqrt is 1/sqrt(x).
func Rsqrt(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"rsqrt"}, x) }

// Square is x*x.
func Square(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"square"}, x) }

// Abs is |x|.
func Abs(b *graph.Builder, x *graph.Value) *graph.Value { return b.One(Unary{"abs"}, x) }

// ScaleBy is f*x; x itself when f is 1.
func ScaleBy(b *graph.Builder, x *graph.Value, f float64) *graph.Value {
	if f == 1 {
		return x
	}
	return b.One(Affine{Scale: f}, x)
}

// AddConst is x + c.
func AddConst(b *graph.Builder, x *graph.Value, c float64) *graph.Value {
	return b.One(Affine{Scale: 1, Shift: c}, x)
}

// Const is a tensor filled with one value.
func Const(b *graph.Builder, m shape.Meta, value float64) *graph.Value {
	return b.One(Fill{Meta: m, Value: value})
}
