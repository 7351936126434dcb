package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestAccuracy compares each set with float64 over floats of all magnitudes at
// which a function is neither saturated nor undefined, and holds it to what the
// package's documentation says. -v prints the largest errors.
func TestAccuracy(t *testing.T) {
	samples := 200_000
	if testing.Short() {
		samples = 20_000
	}
	for _, c := range []struct {
		name   string
		of     func(f *Funcs) func(y, x []float32)
		want   func(float64) float64
		lo, hi float64
		ulps   float64
	}{
		{"exp", func(f *Funcs) func(y, x []float32) { return f.Exp }, math.Exp, -87, 88.7, 1.5},
		{"log", func(f *Funcs) func(y, x []float32) { return f.Log }, math.Log, 0, 3e38, 1},
		{"tanh", func(f *Funcs) func(y, x []float32) { return f.Tanh }, math.Tanh, -20, 20, 2},
		{"sigmoid", func(f *Funcs) func(y, x []float32) { return f.Sigmoid }, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -87, 88, 3},
		{"silu", func(f *Funcs) func(y, x []float32) { return f.Silu }, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, -88, 88, 3.5},
		{"gelu_erf", func(f *Funcs) func(y, x []float32) { return f.GeluErf }, func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, -13.2, 50, 10},
		{"sqrt", func(f *Funcs) func(y, x []float32) { return f.Sqrt }, math.Sqrt, 0, 3e38, 0.5},
		{"rsqrt", func(f *Funcs) func(y, x []float32) { return f.Rsqrt }, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, 3e38, 1.5},
	} {
		rng := rand.New(rand.NewPCG(7, 7))
		x, y := make([]float32, samples), make([]float32, samples)
		for i := range x {
			x[i] = float32(c.lo + (c.hi-c.lo)*rng.Float64())
			if i%2 == 0 { // any magnitude, not only the largest
				x[i] *= float32(math.Exp(-40 * rng.Float64()))
			}
		}
		for set, f := range tables() {
			c.of(f)(y, x)
			worst, at := 0.0, 0
			for i, v := range x {
				if u := ulps(y[i], c.want(float64(v))); u > worst {
					worst, at = u, i
				}
			}
			t.Logf("%s %s: %.2f ulp at %v", set, c.name, worst, x[at])
			if worst > c.ulps {
				t.Errorf("%s %s(%v) = %v, want %v: off by %.2f ulp, more than %v", set, c.name, x[at], y[at], c.want(float64(x[at])), worst, c.ulps)
			}
		}
	}
}

// TestEdges holds every set to the values at which functions saturate.
func TestEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for set, f := range tables() {
		for _, c := range []struct {
			name    string
			f       func(y, x []float32)
			x, want float32
		}{
			{"exp", f.Exp, inf, inf}, {"exp", f.Exp, -inf, 0}, {"exp", f.Exp, 88.8, inf}, {"exp", f.Exp, 3e38, inf},
			{"exp", f.Exp, -105, 0}, {"exp", f.Exp, 0, 1}, {"exp", f.Exp, -100, float32(math.Exp(-100))}, {"exp", f.Exp, nan, nan},
			{"log", f.Log, 0, -inf}, {"log", f.Log, -1, nan}, {"log", f.Log, inf, inf}, {"log", f.Log, 1, 0},
			{"log", f.Log, 1e-45, float32(math.Log(math.SmallestNonzeroFloat32))}, {"log", f.Log, -inf, nan},
			{"tanh", f.Tanh, inf, 1}, {"tanh", f.Tanh, -inf, -1}, {"tanh", f.Tanh, 1e-40, 1e-40}, {"tanh", f.Tanh, 30, 1},
			{"sigmoid", f.Sigmoid, inf, 1}, {"sigmoid", f.Sigmoid, -inf, 0}, {"sigmoid", f.Sigmoid, 0, 0.5},
			{"sqrt", f.Sqrt, inf, inf}, {"sqrt", f.Sqrt, -1, nan}, {"rsqrt", f.Rsqrt, 0, inf}, {"rsqrt", f.Rsqrt, inf, 0},
			{"relu", f.Relu, -inf, 0}, {"relu", f.Relu, inf, inf}, {"relu", f.Relu, nan, nan},
			{"gelu_tanh", f.GeluTanh, inf, inf}, {"gelu_tanh", f.GeluTanh, -30, 0}, {"gelu_erf", f.GeluErf, inf, inf}, {"gelu_erf", f.GeluErf, -30, 0},
			{"silu", f.Silu, inf, inf}, {"silu", f.Silu, 90, 90},
		} {
			x, y := []float32{c.x, c.x, c.x, c.x, c.x, c.x, c.x, c.x, c.x}, make([]float32, 9)
			c.f(y, x)
			for i, v := range y {
				if d := distance(v, c.want); d > 1 && !(c.want == 0 && v == 0) {
					t.Errorf("%s %s(%v)[%d] = %v, want %v", set, c.name, c.x, i, v, c.want)
					break
				}
			}
		}
	}
}
