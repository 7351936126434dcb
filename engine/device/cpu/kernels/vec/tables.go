package vec

import "github.com/berth-ml/berth/engine/ops"

// Generic is plain Go. Transcendental functions are within 1 ulp.
var Generic = Funcs{
	Neg: each(func(x float32) float32 { return -x }), Abs: each(absf), Square: each(func(x float32) float32 { return x * x }),
	Sqrt: each(sqrtf), Rsqrt: each(rsqrtf), Relu: relu, Exp: each(expf), Log: each(logf), Tanh: each(tanhf),
	Sigmoid: each(sigmoidf), Silu: each(siluf), GeluTanh: each(geluTanhf), GeluErf: each(geluErff),

	Add: add, Sub: sub, Mul: mul, Div: div,
	ReluGrad: reluGrad, AbsGrad: pair(absGradf),
	SquareGrad:   pair(func(x, dy float32) float32 { return dy * (2 * x) }),
	SqrtGrad:     pair(func(y, dy float32) float32 { return dy * (0.5 / y) }),
	RsqrtGrad:    pair(func(y, dy float32) float32 { return dy * (-0.5 * (y * y * y)) }),
	ExpGrad:      mul,
	LogGrad:      pair(func(x, dy float32) float32 { return dy / x }),
	TanhGrad:     pair(func(y, dy float32) float32 { return dy * ((1 - y) * (1 + y)) }),
	SigmoidGrad:  pair(func(y, dy float32) float32 { return dy * (y * (1 - y)) }),
	SiluGrad:     pair(siluGradf),
	GeluTanhGrad: pair(geluTanhGradf),
	GeluErfGrad:  pair(geluErfGradf),
	Swiglu:       pair(func(gate, x float32) float32 { return siluf(gate) * x }),
	Geglu:        pair(func(gate, x float32) float32 { return geluErff(gate) * x }),
	GegluTanh:    pair(func(gate, x float32) float32 { return geluTanhf(gate) * x }),
	MulAddTo:     mulAddTo, Lerp: lerp,
	AddScalar: addScalar, MulScalar: mulScalar, DivScalar: divScalar, ScalarSub: scalarSub, ScalarDiv: scalarDiv,
	AddScaled: addScaled, Affine: affine,

	Widen: widen, WidenInt8: ops.WidenInt8,

	Sum: sum, Dot: dot, SquaresFrom: squaresFrom, ExpSum: expSum, Max: largest,
	DropFactors: dropFactors,
	Adam:        adam, Lion: lion, SGD: sgd, Momentum: momentum, Nesterov: nesterov,

	Rows:    &genericRows,
	Columns: &genericColumns,
	Narrow:  &genericNarrow,
}

var genericRows = Rows{
	SumExp: sumExp, ExpScaled: expScaled, DotFrom: dotFrom, MulFrom: mulFrom, LessExp: lessExp,
	SquaredDistance: squaredDistance, LogisticLoss: logisticLoss, SquaredDistanceGrad: squaredDistanceGrad, LogisticLossGrad: logisticLossGrad,
	Normalize: normalize, NormGradSums: normGradSums, NormGrad: normGrad,
	Standardize: standardize, StandardizeGrad: standardizeGrad,
	Rotate: rotate,
	Attend: attend, AttendGrad: attendGrad, RowDots: rowDots, Zeros: zeros,
}

var genericColumns = Columns{
	SumRows: sumRows, MaxRows: maxRows, SumEach: sumEach, MaxEach: maxEach, SquaresRows: squaresRows, DotRows: dotRows, ScaleRows: scaleRows, ScaleGrad: scaleGradRows, FirstRows: firstRows,
}

var genericNarrow = Narrow{
	Softmax: tooWide, SoftmaxGrad: tooWide, LogSoftmaxGrad: tooWide, ExpSums: tooWide,
	Minus: func(_, _, _, _ []float32, _ int) bool { return false },
}

// tooWide is all functions without vectors.
func tooWide(_, _, _ []float32, _ int) bool { return false }
