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

	// y[i] = f(a[i], b[i]). A Grad takes the inputs of its op's gradient: the
	// op's input, or its output where that is enough, and the gradient of the output.
	Add, Sub, Mul, Div                                               func(y, a, b []float32)
	ReluGrad, AbsGrad, SquareGrad, SqrtGrad, RsqrtGrad               func(y, a, b []float32)
	ExpGrad, LogGrad, TanhGrad, SigmoidGrad, SiluGrad                func(y, a, b []float32)
	GeluTanhGrad, GeluErfGrad                                        func(y, a, b []float32)
	Swiglu, Geglu, GegluTanh                                         func(y, a, b []float32)            // y = f(a)*b
	MulAddTo                                                         func(y, a, b []float32)            // y += a*b
	Lerp                                                             func(y, a, b []float32, t float32) // y = a + t*(b-a)
	AddScalar, MulScalar, DivScalar, ScalarSub, ScalarDiv, AddScaled func(y, x []float32, s float32)    // x+s, x*s, x/s, s-x, s/x, y + s*x
	Affine                                                           func(y, x []float32, scale, shift float32)

	Widen     func(y []float32, x []uint16) // y = x, which is stored as bfloat16
	WidenInt8 func(y []float32, x []byte)   // y = x, a row of y's length that is stored as [shape.Int8Block]

	// Sums are in float64, in an order that the length alone decides.
	Sum         func(x []float32) float64
	Dot         func(a, b []float32) float64
	SquaresFrom func(x []float32, c float64) float64        // of (x-c)^2
	ExpSum      func(y, x []float32, shift float32) float64 // y = e^(x-shift), summed
	Max         func(x []float32) float32                   // of the numbers; -Inf where there are none

	// DropFactors writes the factors of elements whose random words are those
	// of whole blocks of four, from a block on; elements beyond a multiple of
	// four are left.
	DropFactors func(dst []float32, block uint64, d *Drop)

	// Optimizers: the numbers are in k, see [AdamFactors], [LionFactors] and [SGDFactors].
	Adam               func(w1, m1, v1, w, m, v, g []float32, k *AdamFactors)
	Lion               func(w1, m1, w, m, g []float32, k *LionFactors)
	SGD                func(w1, w, g []float32, k *SGDFactors)
	Momentum, Nesterov func(w1, v1, w, v, g []float32, k *SGDFactors)

	*Rows
	*Columns
	*Narrow
}

// Rows are the functions of one instruction set over rows, which softmax, losses, norms
// and attention use in addition to [Funcs]. The array that is written may be one that is read.
// Functions of a matrix take its first element and, in elements, the stride from row to
// row; the caller sees to it that all of it is memory.
type Rows struct {
	SumExp              func(x []float32, shift float32) float64   // of e^(x-shift)
	ExpScaled           func(y, x []float32, shift, scale float32) // y = e^(x-shift)*scale
	DotFrom             func(a, b []float32, c float64) float64    // of (a-c)*b
	SquaredDistance     func(a, b []float32) float64               // of (a-b)^2
	LogisticLoss        func(a, b []float32) float64               // of max(a,0) - a*b + log(1+e^-|a|)
	SquaredDistanceGrad func(y, a, b []float32, s float32)         // y = 2*(a-b)*s
	LogisticLossGrad    func(y, a, b []float32, s float32)         // y = (1/(1+e^-a) - b)*s
	MulFrom             func(y, a, b []float32, c float32)         // y = a*(b-c)
	LessExp             func(y, a, b []float32, c float32)         // y = b - e^a*c

	// Normalize is y = (x-mean-rest)*rstd*gamma + beta. rest is the part of the mean that
	// float32 does not hold: it matters where the variance is small. With h =
	// (x-mean)*rstd, NormGradSums is dgamma += dy*h, dbeta += dy, and the sums of dy*gamma
	// and of dy*gamma*h; NormGrad is dx = (dy*gamma - offset - h*slope)*rstd.
	Normalize    func(y, x, gamma, beta []float32, mean, rest, rstd float32)
	NormGradSums func(dgamma, dbeta, x, dy, gamma []float32, mean, rstd float32) (sum, sumh float64)
	NormGrad     func(dx, x, dy, gamma []float32, mean, rstd, offset, slope float32)

	Standardize     func(y, x []float32, mean, rest, factor, shift float32)        // y = (x-mean-rest)*factor + shift
	StandardizeGrad func(dx, x, dy []float32, mean, offset, slope, factor float32) // dx = (dy - offset - (x-mean)*slope)*factor

	// Rotate turns len(cos) points, by the angles that cos and sin are of: the numbers of
	// point i are x[i] and x[len(cos)+i], and y gets them. y may be x.
	Rotate func(y, x, cos, sin []float32)

	// Attend turns rows of scores into softmax(s*scale). Of row r, n+r elements count; the
	// others up to width, a multiple of 16, become 0; n may be width, so that all count. most and sums get each row's largest
	// scaled score and sum of exponentials. All have room for a multiple of AttendRows
	// rows, which are overwritten.
	//
	// AttendGrad turns scores p into probabilities exp(p*scale-lse), and d, the gradient of
	// these, into that of the scores, p*(d-delta)*scale. stats has each row's lse and
	// delta.
	Attend     func(s *float32, ld, rows, n, width int, scale float32, most, sums *float32)
	AttendGrad func(p, d *float32, ld, rows, n, width int, scale float32, stats *float32)

	RowDots func(out *float32, step int, x *float32, xstride int, y *float32, ystride, rows, n int) // of each row of x with that of y
	Zeros   func(x *float32, stride, rows, n int) float32                                           // the sum of 0*x: NaN unless all are finite
}

// AttendRows is the most rows that [Rows].Attend takes together.
const AttendRows = 4

// Columns are the functions of one instruction set that go down the columns of a
// matrix, whose rows are stride elements apart: sums for biases, and batch norm where a
// channel is a column. The other arrays have a number for each column, and rows are
// combined one after the other. SumEach and MaxEach are the exception: their acc has a
// number for each row.
type Columns struct {
	SumRows     func(acc []float64, x []float32, stride, rows int)                       // acc += each row
	MaxRows     func(acc []float64, x []float32, stride, rows int)                       // the largest, or NaN if one is
	SumEach     func(acc []float64, x []float32, stride, n int)                          // acc += the sum of each row's n elements
	MaxEach     func(acc []float64, x []float32, stride, n int)                          // the largest, or NaN if one is
	SquaresRows func(acc, means []float64, x []float32, stride, rows int)                // acc += (x-mean)^2
	DotRows     func(acc, means []float64, x, y []float32, stride, rows int)             // acc += (x-mean)*y
	ScaleRows   func(y, x, mean, rest, factor, shift []float32, stride, rows int)        // y = (x-mean-rest)*factor + shift
	ScaleGrad   func(dx, x, dy, mean, offset, slope, factor []float32, stride, rows int) // dx = (dy-offset - (x-mean)*slope)*factor
	FirstRows   func(y, x, most, dy []float32, stride, rows int)                         // y = dy where x is most for the first time, else 0
}

// Narrow are the functions of one instruction set over all rows at once, of n elements
// each. They report whether they can: rows must fit into four vectors. y may be an
// array that is read. most, sums and logs have a number for each row.
type Narrow struct {
	Softmax        func(y, a, _ []float32, n int) bool          // y = e^a / sum of e^a
	SoftmaxGrad    func(y, a, b []float32, n int) bool          // y = a*(b - sum of a*b)
	LogSoftmaxGrad func(y, a, b []float32, n int) bool          // y = b - e^a * sum of b
	ExpSums        func(most, sums, x []float32, n int) bool    // the largest of x, and the sum of e^(x-most)
	Minus          func(y, x, most, logs []float32, n int) bool // y = x - most - logs
}

// LogSumExp is log(sum(e^x)), shifted by the maximum so that it cannot
// overflow.
func (f *Funcs) LogSumExp(x []float32) float64 {
	m := f.Max(x)
	return float64(m) + math.Log(f.SumExp(x, m))
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

// LionFactors are d = Grad*g, w' = Shrink*w - Rate*sign(Beta1*m + Rest1*d) and
// m' = Beta2*m + Rest2*d.
type LionFactors struct {
	Grad, Beta1, Rest1, Beta2, Rest2, Shrink, Rate float32
}

// SGDFactors are d = Grad*g + Decay*w, v' = Momentum*v + d, and w' = w - Rate*u,
// where u is d, v', or d + Momentum*v' by Nesterov.
type SGDFactors struct {
	Grad, Decay, Rate, Momentum float32
}
