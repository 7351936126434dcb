package blas

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// arguments are not on a stack.
var arguments Call

// library is OpenBLAS; where there is none, the error must say how to help
// oneself, and that is all there is to test.
func library(t *testing.T) *Library {
	t.Helper()
	l, err := Open()
	if err == nil {
		return l
	}
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "do without") {
		t.Errorf("%v: want %v and what to do", err, ErrNotFound)
	}
	return nil
}

// TestMultiply compares products of all layouts with sums in float64.
func TestMultiply(t *testing.T) {
	l := library(t)
	if l == nil {
		return
	}
	if !strings.HasPrefix(l.Name(), "libopenblas") {
		t.Errorf("the library is %q", l.Name())
	}
	rng, c := rand.New(rand.NewPCG(1, 2)), &arguments
	for range 100 {
		m, n, k := 1+rng.IntN(40), 1+rng.IntN(40), 1+rng.IntN(40)
		const stride = 45
		a, b, out := random(rng, stride), random(rng, stride), random(rng, stride)
		old := append([]float32(nil), out...)
		transA, transB, add := rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
		c.Multiply(l, m, n, k, Matrix{&a[0], stride, transA}, Matrix{&b[0], stride, transB}, Matrix{Data: &out[0], Stride: stride}, add)
		for at, v := range out {
			i, j := at/stride, at%stride
			want := float64(old[at])
			if i < m && j < n {
				want = product(a, b, i, j, k, stride, transA, transB)
				if add {
					want += float64(old[at])
				}
			}
			if math.Abs(float64(v)-want) > 1e-5 {
				t.Fatalf("%dx%dx%d, trans %v %v, add %v: element (%d,%d) is %v, want %v", m, n, k, transA, transB, add, i, j, v, want)
			}
		}
	}
}

func random(rng *rand.Rand, side int) []float32 {
	f := make([]float32, side*side)
	for i := range f {
		f[i] = rng.Float32() - 0.5
	}
	return f
}

func product(a, b []float32, i, j, k, stride int, transA, transB bool) (sum float64) {
	at := func(m []float32, row, col int, trans bool) float64 {
		if trans {
			row, col = col, row
		}
		return float64(m[row*stride+col])
	}
	for s := range k {
		sum += at(a, i, s, transA) * at(b, s, j, transB)
	}
	return sum
}

// TestCallAllocatesNothing, so that a step does not either.
func TestCallAllocatesNothing(t *testing.T) {
	l := library(t)
	if l == nil {
		return
	}
	a, c := random(rand.New(rand.NewPCG(1, 2)), 8), &arguments
	m := Matrix{Data: &a[0], Stride: 8}
	if n := testing.AllocsPerRun(100, func() { c.Multiply(l, 8, 8, 8, m, m, m, true) }); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}
