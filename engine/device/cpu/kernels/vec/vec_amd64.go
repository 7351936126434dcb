package vec

import "github.com/berth-ml/berth/engine/device/cpu/kernels/asm"

// AVX512 needs AVX-512 F, VL, BW and DQ.
var AVX512 = Funcs{
	Neg:      unary(asm.Neg512),
	Abs:      unary(asm.Abs512),
	Square:   unary(asm.Square512),
	Sqrt:     unary(asm.Sqrt512),
	Rsqrt:    unary(asm.Rsqrt512),
	Relu:     unary(asm.Relu512),
	Exp:      unary(asm.Exp512),
	Log:      unary(asm.Log512),
	Tanh:     unary(asm.Tanh512),
	Sigmoid:  unary(asm.Sigmoid512),
	Silu:     unary(asm.Silu512),
	GeluTanh: unary(asm.GeluTanh512),
	GeluErf:  unary(asm.GeluErf512),

	Add:          binary(asm.Add512),
	Sub:          binary(asm.Sub512),
	Mul:          binary(asm.Mul512),
	Div:          binary(asm.Div512),
	ReluGrad:     binary(asm.ReluGrad512),
	AbsGrad:      binary(asm.AbsGrad512),
	SquareGrad:   binary(asm.SquareGrad512),
	SqrtGrad:     binary(asm.SqrtGrad512),
	RsqrtGrad:    binary(asm.RsqrtGrad512),
	ExpGrad:      binary(asm.ExpGrad512),
	LogGrad:      binary(asm.LogGrad512),
	TanhGrad:     binary(asm.TanhGrad512),
	SigmoidGrad:  binary(asm.SigmoidGrad512),
	SiluGrad:     binary(asm.SiluGrad512),
	GeluTanhGrad: binary(asm.GeluTanhGrad512),
	GeluErfGrad:  binary(asm.GeluErfGrad512),
	MulAddTo:     binary(asm.MulAddTo512),

	AddScalar: scalar(asm.AddScalar512),
	MulScalar: scalar(asm.MulScalar512),
	DivScalar: scalar(asm.DivScalar512),
	ScalarSub: scalar(asm.ScalarSub512),
	ScalarDiv: scalar(asm.ScalarDiv512),
	AddScaled: scalar(asm.AddScaled512),
	Lerp:      blend(asm.Lerp512), Affine: linear(asm.Affine512),

	Sum: total(asm.Sum512), Dot: total2(asm.Dot512), SquaresFrom: totalFrom(asm.SquaresFrom512), ExpSum: totalExp(asm.ExpSum512), Max: most(asm.Max512),

	DropFactors: drops(asm.DropFactors512, 64),
	Adam:        update3(asm.Adam512), SGD: update1(asm.SGD512), Momentum: update2(asm.Momentum512), Nesterov: update2(asm.Nesterov512),

	Rows:    &avx512Rows,
	Columns: &avx512Columns,
	Narrow:  &avx512Narrow,
}

// AVX2 needs AVX2 and FMA.
var AVX2 = Funcs{
	Neg:      unary(asm.Neg2),
	Abs:      unary(asm.Abs2),
	Square:   unary(asm.Square2),
	Sqrt:     unary(asm.Sqrt2),
	Rsqrt:    unary(asm.Rsqrt2),
	Relu:     unary(asm.Relu2),
	Exp:      unary(asm.Exp2),
	Log:      unary(asm.Log2),
	Tanh:     unary(asm.Tanh2),
	Sigmoid:  unary(asm.Sigmoid2),
	Silu:     unary(asm.Silu2),
	GeluTanh: unary(asm.GeluTanh2),
	GeluErf:  unary(asm.GeluErf2),

	Add:          binary(asm.Add2),
	Sub:          binary(asm.Sub2),
	Mul:          binary(asm.Mul2),
	Div:          binary(asm.Div2),
	ReluGrad:     binary(asm.ReluGrad2),
	AbsGrad:      binary(asm.AbsGrad2),
	SquareGrad:   binary(asm.SquareGrad2),
	SqrtGrad:     binary(asm.SqrtGrad2),
	RsqrtGrad:    binary(asm.RsqrtGrad2),
	ExpGrad:      binary(asm.ExpGrad2),
	LogGrad:      binary(asm.LogGrad2),
	TanhGrad:     binary(asm.TanhGrad2),
	SigmoidGrad:  binary(asm.SigmoidGrad2),
	SiluGrad:     binary(asm.SiluGrad2),
	GeluTanhGrad: binary(asm.GeluTanhGrad2),
	GeluErfGrad:  binary(asm.GeluErfGrad2),
	MulAddTo:     binary(asm.MulAddTo2),

	AddScalar: scalar(asm.AddScalar2),
	MulScalar: scalar(asm.MulScalar2),
	DivScalar: scalar(asm.DivScalar2),
	ScalarSub: scalar(asm.ScalarSub2),
	ScalarDiv: scalar(asm.ScalarDiv2),
	AddScaled: scalar(asm.AddScaled2),
	Lerp:      blend(asm.Lerp2), Affine: linear(asm.Affine2),

	Sum: total(asm.Sum2), Dot: total2(asm.Dot2), SquaresFrom: totalFrom(asm.SquaresFrom2), ExpSum: totalExp(asm.ExpSum2), Max: most(asm.Max2),

	DropFactors: drops(asm.DropFactors2, 32),
	Adam:        update3(asm.Adam2), SGD: update1(asm.SGD2), Momentum: update2(asm.Momentum2), Nesterov: update2(asm.Nesterov2),

	Rows:    &avx2Rows,
	Columns: &avx2Columns,
	Narrow:  &avx2Narrow,
}

// Assembly takes addresses and does not check lengths: the functions here do.

func unary(f func(y, x *float32, n int)) func(y, x []float32) {
	return func(y, x []float32) {
		if n := len(x); n > 0 {
			f(&y[:n][0], &x[0], n)
		}
	}
}

func binary(f func(y, a, b *float32, n int)) func(y, a, b []float32) {
	return func(y, a, b []float32) {
		if n := len(a); n > 0 {
			f(&y[:n][0], &a[0], &b[:n][0], n)
		}
	}
}

func scalar(f func(y, x *float32, n int, s float32)) func(y, x []float32, s float32) {
	return func(y, x []float32, s float32) {
		if n := len(x); n > 0 {
			f(&y[:n][0], &x[0], n, s)
		}
	}
}

func blend(f func(y, a, b *float32, n int, t float32)) func(y, a, b []float32, t float32) {
	return func(y, a, b []float32, t float32) {
		if n := len(a); n > 0 {
			f(&y[:n][0], &a[0], &b[:n][0], n, t)
		}
	}
}

func linear(f func(y, x *float32, n int, scale, shift float32)) func(y, x []float32, scale, shift float32) {
	return func(y, x []float32, scale, shift float32) {
		if n := len(x); n > 0 {
			f(&y[:n][0], &x[0], n, scale, shift)
		}
	}
}

func total(f func(x *float32, n int) float64) func(x []float32) float64 {
	return func(x []float32) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(&x[0], len(x))
	}
}

func total2(f func(a, b *float32, n int) float64) func(a, b []float32) float64 {
	return func(a, b []float32) float64 {
		if len(a) == 0 {
			return 0
		}
		return f(&a[0], &b[:len(a)][0], len(a))
	}
}

func totalFrom(f func(x *float32, n int, c float64) float64) func(x []float32, c float64) float64 {
	return func(x []float32, c float64) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(&x[0], len(x), c)
	}
}

func totalExp(f func(y, x *float32, n int, shift float32) float64) func(y, x []float32, shift float32) float64 {
	return func(y, x []float32, shift float32) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(&y[:len(x)][0], &x[0], len(x), shift)
	}
}

func most(f func(x *float32, n int) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		if len(x) == 0 {
			return largest(x)
		}
		return f(&x[0], len(x))
	}
}

func update1(f func(w1, w, dw, k *float32, n int)) func(w1, w, g []float32, k *SGDFactors) {
	return func(w1, w, g []float32, k *SGDFactors) {
		if n := len(w); n > 0 {
			f(&w1[:n][0], &w[0], &g[:n][0], &k.Grad, n)
		}
	}
}

func update2(f func(w1, v1, w, v, dw, k *float32, n int)) func(w1, v1, w, v, g []float32, k *SGDFactors) {
	return func(w1, v1, w, v, g []float32, k *SGDFactors) {
		if n := len(w); n > 0 {
			f(&w1[:n][0], &v1[:n][0], &w[0], &v[:n][0], &g[:n][0], &k.Grad, n)
		}
	}
}

func update3(f func(w1, m1, v1, w, m, v, dw, k *float32, n int)) func(w1, m1, v1, w, m, v, g []float32, k *AdamFactors) {
	return func(w1, m1, v1, w, m, v, g []float32, k *AdamFactors) {
		if n := len(w); n > 0 {
			f(&w1[:n][0], &m1[:n][0], &v1[:n][0], &w[0], &m[:n][0], &v[:n][0], &g[:n][0], &k.Grad, n)
		}
	}
}

// drops goes through groups of elements on vectors, and through the rest one
// block at a time. The vectors' counters have no carry.
func drops(f func(dst *float32, groups int, c0, c1, step, k0, k1, least, factor uint32), group int) func(dst []float32, block uint64, d *Drop) {
	return func(dst []float32, block uint64, d *Drop) {
		n := len(dst) / group
		if uint64(uint32(block))+uint64(n*group/4) > 1<<32 {
			n = 0
		}
		if n > 0 {
			f(&dst[0], n, uint32(block), uint32(block>>32), d.Step, d.Key.Lo, d.Key.Hi, d.Least, d.Factor)
		}
		dropFactors(dst[n*group:], block+uint64(n*group/4), d)
	}
}
