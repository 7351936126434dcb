package vec

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// ulps is the distance of got from want in units of want's last place.
func ulps(got float32, want float64) float64 {
	if float64(got) == want || math.IsNaN(want) && got != got {
		return 0
	}
	w := float32(want)
	next := math.Nextafter32(float32(math.Abs(float64(w))), math.MaxFloat32)
	return math.Abs(float64(got)-want) / (float64(next) - math.Abs(float64(w)))
}

// TestFunctionsAreWithinAnUlp compares with package math over the floats of
// all magnitudes at which the function is neither saturated nor undefined.
func TestFunctionsAreWithinAnUlp(t *testing.T) {
	gelu := func(x float64) float64 { return x / (1 + math.Exp(-2*geluA*x*(1+geluB*x*x))) }
	for _, c := range []struct {
		name   string
		got    func(float32) float32
		want   func(float64) float64
		lo, hi float64
	}{
		{"exp", expf, math.Exp, -104, 88.7},
		{"log", logf, math.Log, 0, 1e38},
		{"tanh", tanhf, math.Tanh, -20, 20},
		{"sigmoid", sigmoidf, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -88, 88},
		{"silu", siluf, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, -85, 88},
		{"gelu_tanh", geluTanhf, gelu, -10, 50},
		{"gelu_erf", geluErff, func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, -12, 50},
		{"rsqrt", rsqrtf, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, 1e38},
	} {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
				for range 2000 {
					x := float32(c.lo + (c.hi-c.lo)*rng.Float64())
					if rng.IntN(2) == 0 { // any magnitude, not only the largest
						x *= float32(math.Exp(-20 * rng.Float64()))
					}
					if u := ulps(c.got(x), c.want(float64(x))); u > 1 {
						t.Fatalf("f(%v) = %v, want %v: off by %.2f ulp", x, c.got(x), c.want(float64(x)), u)
					}
				}
			})
		})
	}
}
