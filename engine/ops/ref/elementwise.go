package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var elementwise = func() map[string]kernel {
	all := map[string]kernel{"affine": of(affine), "lerp": of(lerp), "fill": of(fill), "select": of(choose), "select_grad": of(chooseGrad)}
	for fn, f := range binaries {
		all[fn] = binary(f)
	}
	for fn, f := range comparisons {
		all[fn] = binary(f)
	}
	for fn, f := range unaries {
		all[fn] = unary(f)
	}
	for fn, f := range gates {
		all[fn] = binary(func(gate, x float64) float64 { return unaries[f](gate) * x })
	}
	for fn, f := range slopes {
		all[fn+"_grad"] = slope(f)
	}
	return all
}()

var binaries = map[string]func(x, y float64) float64{
	"add": func(x, y float64) float64 { return x + y },
	"sub": func(x, y float64) float64 { return x - y },
	"mul": func(x, y float64) float64 { return x * y },
	"div": func(x, y float64) float64 { return x / y },
}

var comparisons = map[string]func(x, y float64) float64{
	"less":  func(x, y float64) float64 { return one(x < y) },
	"equal": func(x, y float64) float64 { return one(x == y) },
}

var unaries = map[string]func(x float64) float64{
	"neg":       func(x float64) float64 { return -x },
	"relu":      func(x float64) float64 { return max(x, 0) },
	"gelu_tanh": func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(geluInner(x))) },
	"gelu_erf":  func(x float64) float64 { return x * normalCDF(x) },
	"silu":      func(x float64) float64 { return x * sigmoid(x) },
	"sigmoid":   sigmoid,
	"tanh":      math.Tanh,
	"exp":       math.Exp,
	"log":       math.Log,
	"sqrt":      math.Sqrt,
	"rsqrt":     func(x float64) float64 { return 1 / math.Sqrt(x) },
	"square":    func(x float64) float64 { return x * x },
	"abs":       math.Abs,
}

// gates have the function of each gated product.
var gates = map[string]string{"swiglu": "silu", "geglu": "gelu_erf", "geglu_tanh": "gelu_tanh"}

// slopes are the derivatives, in terms of the function's output y or its input
// x, whichever ops.UnaryGrad takes.
var slopes = map[string]func(a float64) float64{
	"relu":    func(y float64) float64 { return step(y) },
	"sigmoid": func(y float64) float64 { return y * (1 - y) },
	"tanh":    func(y float64) float64 { return 1 - y*y },
	"exp":     func(y float64) float64 { return y },
	"sqrt":    func(y float64) float64 { return 0.5 / y },
	"rsqrt":   func(y float64) float64 { return -0.5 * y * y * y },
	"gelu_tanh": func(x float64) float64 {
		t := math.Tanh(geluInner(x))
		return 0.5*(1+t) + 0.5*x*(1-t*t)*math.Sqrt(2/math.Pi)*(1+3*0.044715*x*x)
	},
	"gelu_erf": func(x float64) float64 {
		return normalCDF(x) + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	},
	"silu":   func(x float64) float64 { s := sigmoid(x); return s * (1 + x*(1-s)) },
	"log":    func(x float64) float64 { return 1 / x },
	"square": func(x float64) float64 { return 2 * x },
	"abs":    func(x float64) float64 { return step(x) - step(-x) },
}

func geluInner(x float64) float64 { return math.Sqrt(2/math.Pi) * (x + 0.044715*x*x*x) }
func normalCDF(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
func sigmoid(x float64) float64   { return 1 / (1 + math.Exp(-x)) }

// step is 1 above 0, else 0.
func step(x float64) float64 { return one(x > 0) }

// one is 1 for true, 0 for false.
func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func binary(f func(x, y float64) float64) kernel {
	return func(_ graph.Op, in, out []Array) error {
		x, y := in[0], in[1]
		s := out[0].Meta.Shape
		sx, sy := strides(x.Meta.Shape, s), strides(y.Meta.Shape, s)
		each(s, func(i int, ix []int) { out[0].F[i] = f(x.F[at(ix, sx)], y.F[at(ix, sy)]) })
		return nil
	}
}

func unary(f func(x float64) float64) kernel {
	return func(_ graph.Op, in, out []Array) error {
		for i, x := range in[0].F {
			out[0].F[i] = f(x)
		}
		return nil
	}
}

func slope(f func(a float64) float64) kernel {
	return func(_ graph.Op, in, out []Array) error {
		for i, a := range in[0].F {
			out[0].F[i] = f(a) * in[1].F[i]
		}
		return nil
	}
}

func affine(o ops.Affine, in, out []Array) {
	for i, x := range in[0].F {
		out[0].F[i] = x*o.Scale + o.Shift
	}
}

func lerp(o ops.Lerp, in, out []Array) {
	for i, a := range in[0].F {
		out[0].F[i] = a + o.T*(in[1].F[i]-a)
	}
}

func choose(_ ops.Select, in, out []Array) {
	for i, p := range in[0].F {
		if out[0].F[i] = in[2].F[i]; p != 0 {
			out[0].F[i] = in[1].F[i]
		}
	}
}

func chooseGrad(o ops.SelectGrad, in, out []Array) {
	for i, p := range in[0].F {
		if (p != 0) != o.Else {
			out[0].F[i] = in[1].F[i]
		}
	}
}

func fill(o ops.Fill, _, out []Array) {
	for i := range out[0].F {
		out[0].F[i] = o.Value
	}
	for i := range out[0].I {
		out[0].I[i] = int32(o.Value)
	}
}
