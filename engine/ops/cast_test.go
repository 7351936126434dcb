package ops_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

func drawCast(t *rapid.T) sample {
	d := dims(t, 0, 3)
	if rapid.Bool().Draw(t, "whole") {
		return sample{op: ops.Cast{To: "f32"}, in: []ref.Array{indices(t, math.MaxInt32, d...)}}
	}
	return sample{op: ops.Cast{To: "i32"}, in: []ref.Array{signed(t, d...)}}
}

func TestTruncate(t *testing.T) {
	for x, want := range map[float32]int32{
		0: 0, 0.9: 0, -0.9: 0, 1.5: 1, -1.5: -1, 16777217: 16777216, 3e9: math.MaxInt32, -3e9: math.MinInt32,
		1 << 31: math.MaxInt32, -1 << 31: math.MinInt32, 2147483520: 2147483520,
		float32(math.Inf(1)): math.MaxInt32, float32(math.Inf(-1)): math.MinInt32,
	} {
		if got := ops.Truncate(x); got != want {
			t.Errorf("%v becomes %d, expected %d", x, got, want)
		}
	}
	if got := ops.Truncate(float32(math.NaN())); got != 0 {
		t.Errorf("NaN becomes %d", got)
	}
}

// Every half-precision number is its own rounding, and a number between two neighbours
// goes to the nearer one, or to the even one.
func TestRoundF16(t *testing.T) {
	number := func(bits int) float32 { // the positive half-precision number of those bits
		e, m := bits>>10, float64(bits&1023)
		if e == 0 {
			return float32(math.Ldexp(m, -24))
		}
		return float32(math.Ldexp(1024+m, e-25))
	}
	const largest = 0x7bff
	for bits := range largest {
		low, high := number(bits), number(bits+1)
		even := low
		if bits&1 == 1 {
			even = high
		}
		middle := (low + high) / 2
		for x, want := range map[float32]float32{
			low: low, middle: even, math.Nextafter32(middle, 0): low, math.Nextafter32(middle, high): high,
			-middle: -even,
		} {
			if got := ops.RoundF16(x); got != want {
				t.Fatalf("%v becomes %v, expected %v", x, got, want)
			}
		}
	}
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{65504: 65504, 65519.996: 65504, 65520: inf, inf: inf, -1e30: -inf} {
		if got := ops.RoundF16(x); got != want {
			t.Errorf("%v becomes %v, expected %v", x, got, want)
		}
	}
	if got := ops.RoundF16(float32(math.NaN())); got == got {
		t.Errorf("NaN becomes %v", got)
	}
	if got := ops.RoundF16(float32(math.Copysign(1e-30, -1))); got != 0 || !math.Signbit(float64(got)) {
		t.Errorf("-1e-30 becomes %v, expected -0", got)
	}
}

// The gradient goes through a rounding as it is.
func TestCastsGradient(t *testing.T) {
	b := graph.NewBuilder("cast", 1)
	x := b.Input("x", shape.F32(2))
	y := ops.CastTo(b, ops.CastTo(b, x, "bf16"), "f16")
	seed := ops.Const(b, y.Meta, 3)
	if got := b.Gradients(y, seed, []*graph.Value{x}, ops.AddOp)[x]; b.Err() != nil || len(got) != 1 || got[0] != seed {
		t.Errorf("the gradient is %v (%v), expected that of the result", got, b.Err())
	}
}
