package vec

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

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

func widens(f func(y *float32, x *uint16, n int), lanes int) func(y []float32, x []uint16) {
	return func(y []float32, x []uint16) {
		whole := len(x) / lanes * lanes
		if whole > 0 {
			f(&y[:whole][0], &x[0], whole)
		}
		widen(y[whole:], x[whole:])
	}
}

// widensInt8 makes vectors take whole blocks, and plain Go the end of a row.
func widensInt8(f func(y *float32, x *byte, blocks int)) func(y []float32, x []byte) {
	return func(y []float32, x []byte) {
		blocks := len(y) / shape.BlockElems
		if blocks > 0 {
			f(&y[0], &x[:blocks*shape.BlockBytes][0], blocks)
		}
		ops.WidenInt8(y[blocks*shape.BlockElems:], x[blocks*shape.BlockBytes:])
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

func updateSigns(f func(w1, m1, w, m, dw, k *float32, n int)) func(w1, m1, w, m, g []float32, k *LionFactors) {
	return func(w1, m1, w, m, g []float32, k *LionFactors) {
		if n := len(w); n > 0 {
			f(&w1[:n][0], &m1[:n][0], &w[0], &m[:n][0], &g[:n][0], &k.Grad, n)
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
