package gen

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// The expressions of elementwise ops, of x and y.
var (
	binaries    = map[string]string{"add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y"}
	comparisons = map[string]string{"less": "x < y ? 1.0f : 0.0f", "equal": "x == y ? 1.0f : 0.0f"}
	unaries     = map[string]string{
		"neg": "-x", "relu": "x != x ? x : x > 0.0f ? x : 0.0f", "silu": "x * sigmoid_f(x)", "sigmoid": "sigmoid_f(x)", "tanh": "tanh_f(x)",
		"exp": "exp_f(x)", "log": "log_f(x)", "sqrt": "SQRT(x)", "rsqrt": "1.0f / SQRT(x)", "square": "x * x", "abs": "AS_FLOAT(AS_INT(x) & 0x7fffffff)",
		"gelu_erf":  "x * cdf_f(x)",
		"gelu_tanh": "0.5f * x * (1.0f + tanh_f(0.7978845608f * FMA(0.044715f * x * x, x, x)))",
	}
	// gates are of the gate as x, and of y.
	gates = map[string]string{"swiglu": "x * sigmoid_f(x) * y", "geglu": "x * cdf_f(x) * y", "geglu_tanh": "(" + unaries["gelu_tanh"] + ") * y"}
	// gradients are of x or y, whichever ops.UnaryGrad takes first, as x, and of dy, as y.
	gradients = map[string]string{
		"relu": "x <= 0.0f ? 0.0f : y", "abs": "x > 0.0f ? y : x < 0.0f ? -y : 0.0f",
		"sigmoid": "x * (1.0f - x) * y", "tanh": "FMA(-x, x, 1.0f) * y", "exp": "x * y", "sqrt": "0.5f / x * y",
		"rsqrt": "-0.5f * x * x * x * y", "log": "1.0f / x * y", "square": "2.0f * x * y",
		"silu": "silu_slope(x) * y", "gelu_erf": "FMA(x, exp_f(-0.5f * x * x) * 0.3989422804f, cdf_f(x)) * y", "gelu_tanh": "gelu_tanh_slope(x) * y",
	}
)

func elementwise() map[string]template {
	all := map[string]template{"fill": of(fill)}
	for _, kind := range []string{"affine", "lerp", "dropout", "mse_grad", "bce_grad", "less", "equal", "select", "select_grad"} {
		all[kind] = pointwise
	}
	for fn := range binaries {
		all[fn] = pointwise
	}
	for fn := range unaries {
		all[fn] = pointwise
	}
	for fn := range gates {
		all[fn] = pointwise
	}
	for fn := range gradients {
		all[fn+"_grad"] = pointwise
	}
	return all
}

func pointwise(w *writer, _ graph.Op) error { return w.pointwise() }

// formula is an elementwise op as C: its result, of its operands x, y and z and the
// element's number i. The names of its parameters begin with $.
type formula struct {
	c      string
	params []param
}

// formulaOf is the formula of a node; false if the op is not elementwise.
func formulaOf(n *graph.Node) (f formula, ok bool) {
	switch o := n.Op.(type) {
	case ops.Binary:
		f.c = binaries[o.Fn]
	case ops.Unary:
		f.c = unaries[o.Fn]
	case ops.UnaryGrad:
		f.c = gradients[o.Fn]
	case ops.Gated:
		f.c = gates[o.Fn]
	case ops.Compare:
		f.c = comparisons[o.Fn]
	case ops.Select:
		f.c = "x != 0.0f ? y : z"
	case ops.SelectGrad:
		f.c = "x != 0.0f ? y : 0.0f"
		if o.Else {
			f.c = "x != 0.0f ? 0.0f : y"
		}
	case ops.Affine:
		f.c = "FMA(x, " + float(o.Scale) + ", " + float(o.Shift) + ")"
	case ops.Lerp:
		f.c = "FMA(" + float(o.T) + ", y - x, x)"
	case ops.BroadcastTo:
		f.c = "x"
	case ops.MSEGrad:
		f.c = "2.0f * (x - y) * z"
	case ops.BCEGrad:
		f.c = "(sigmoid_f(x) - y) * z"
	case ops.Dropout:
		key := o.Key()
		f.c = "kept_f((u32)$lo, (u32)$hi, (u64)(z * $size + i), (u32)y, " + float(o.P) + ") ? x * " + float(1/(1-o.P)) + " : 0.0f"
		f.params = []param{number("$lo", int(key.Lo)), number("$hi", int(key.Hi)), number("$size", n.In[0].Meta.Shape[1:].Elems())}
	}
	return f, f.c != ""
}

// position is the expression of where element i of a tensor of shape s lies in an
// operand with those strides, and its parameters. Dimensions that lie in memory as one
// count as one, as each costs divisions.
func position(prefix string, s shape.Shape, st []int) (params []param, c string) {
	n := s.Elems()
	var sum []string
	inner := 1 // elements of the dimensions after d
	for d := len(s) - 1; d >= 0 && n > 0; d-- {
		size, step := s[d], st[d]
		for ; d > 0 && (s[d-1] == 1 || st[d-1] == step*size); d-- {
			size *= s[d-1]
		}
		if step != 0 && size != 1 {
			term, numbers := digit(fmt.Sprint(prefix, len(sum)), inner, size, step, n)
			params, sum = append(params, numbers...), append(sum, term)
		}
		inner *= size
	}
	if sum == nil {
		return nil, "0"
	}
	return params, strings.Join(sum, " + ")
}

// digit is step times one digit of i, which is below n: its digit of value inner, below
// size.
func digit(prefix string, inner, size, step, n int) (c string, params []param) {
	c = "i"
	part := func(op, name string, v int) {
		c += " " + op + " " + prefix + name
		params = append(params, number(prefix+name, v))
	}
	if inner > 1 {
		part("/", "a", inner)
	}
	if inner*size < n {
		part("%", "b", size)
	}
	if step != 1 {
		part("*", "c", step)
	}
	return c, params
}

// strides are the steps between the elements of x when broadcasting stretches it
// to shape to: 0 along the dimensions that it stretches.
func strides(x, to shape.Shape) []int {
	st, own := make([]int, len(to)), x.Strides()
	for i := range x {
		if x[i] != 1 {
			st[len(to)-len(x)+i] = own[i]
		}
	}
	return st
}

func fill(w *writer, o ops.Fill) {
	n := w.outElems(0)
	p, v := out(0, "Z"), float(o.Value)
	if w.node.Out[0].Meta.DType == shape.Int32 {
		p, v = outInts(0, "Z"), fmt.Sprint(int32(o.Value))
	}
	w.items(n, []param{p}, "\tZ[i] = "+v+";\n")
}
