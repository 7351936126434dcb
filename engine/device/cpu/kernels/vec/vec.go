package vec

import (
	"math"

	"github.com/berth-ml/berth/engine/rng"
)

// Funcs are the functions of one instruction set. y and the arrays that are read have
// the same length, any alignment, and may be the very same memory; they must not
// overlap otherwise.
type Funcs struct {
	// y[i] = f(x[i]).
	Neg, Abs, Square, Sqrt, Rsqrt, Relu, Exp, Log, Tanh, Sigmoid, Silu, GeluTanh, GeluErf func(y, x []float32)

	// y[i] = f(a[i], b[i]). A Grad takes what its op's gradient takes (the
	// op's input, or its output where that is enough) and the gradient of the
	// output.
	Add, Sub, Mul, Div                                               func(y, a, b []float32)
	ReluGrad, AbsGrad, SquareGrad, SqrtGrad, RsqrtGrad               func(y, a, b []float32)
	ExpGrad, LogGrad, TanhGrad, SigmoidGrad, SiluGrad                func(y, a, b []float32)
	GeluTanhGrad, GeluErfGrad                                        func(y, a, b []float32)
	MulAddTo                                                         func(y, a, b []float32)            // y += a*b
	Lerp                                                             func(y, a, b []float32, t float32) // y = a + t*(b-a)
	AddScalar, MulScalar, DivScalar, ScalarSub, ScalarDiv, AddScaled func(y, x []float32, s float32)    // x+s, x*s, x/s, s-x, s/x, y + s*x
	Affine                                                           func(y, x []float32, scale, shift float32)

	// Sums are in float64, in an order that the length alone decides.
	Sum         func(x []float32) float64
	Dot         func(a, b []float32) float64
	SquaresFrom func(x []float32, c float64) float64        // of (x-c)^2
	ExpSum      func(y, x []float32, shift float32) float64 // y = e^(x-shift), summed
	Max         func(x []float32) float32                   // of what is not NaN; -Inf of nothing

	// DropFactors writes the factors of elements whose random words are those
	// of whole blocks of four, from a block on; what is beyond a multiple of
	// four is left.
	DropFactors func(dst []float32, block uint64, d *Drop)

	// Optimizers: the numbers are in k, see [AdamFactors] and [SGDFactors].
	Adam               func(w1, m1, v1, w, m, v, g []float32, k *AdamFactors)
	SGD                func(w1, w, g []float32, k *SGDFactors)
	Momentum, Nesterov func(w1, v1, w, v, g []float32, k *SGDFactors)

	*Rows
	*Columns
	*Narrow
}

// Drop says which elements dropout keeps: those whose random word has upper 24 bits of
// at least Least. Factor is the bits of the number that they are multiplied with.
type Drop struct {
	Key           rng.Key
	Step          uint32
	Least, Factor uint32
}

// Of is the factor of an element by its random word.
func (d *Drop) Of(word uint32) float32 {
	kept := ^uint32(int32(word>>8-d.Least) >> 31)
	return math.Float32frombits(d.Factor & kept)
}

// AdamFactors are d = Grad*g + Decay*w, m' = Beta1*m + Rest1*d,
// v' = Beta2*v + Rest2*d*d, w' = Shrink*w - Rate*m'/(Root*sqrt(v') + Epsilon).
type AdamFactors struct {
	Grad, Decay, Beta1, Rest1, Beta2, Rest2, Shrink, Rate, Root, Epsilon float32
}

// SGDFactors are d = Grad*g + Decay*w, v' = Momentum*v + d, and w' = w - Rate*u,
// where u is d, v', or d + Momentum*v' by Nesterov.
type SGDFactors struct {
	Grad, Decay, Rate, Momentum float32
}
