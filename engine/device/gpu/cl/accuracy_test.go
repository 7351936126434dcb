package cl

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// Functions are right to two units in the last place over all float32, and at its ends.
func TestAccuracy(t *testing.T) {
	r := newRig(t)
	var list []kernelstest.Sample
	functions := []string{"exp"}
	if testall.Wanted() {
		functions = []string{"exp", "log", "tanh", "sqrt", "rsqrt"}
	}
	x := everywhere()
	for _, fn := range functions {
		list = append(list, kernelstest.Of(ops.Unary{Fn: fn}, 0, ref.Floats(x, len(x))))
	}
	trials, image := r.trials(list)
	after := r.run(trials, image, 64)
	for _, x := range trials {
		got := shape.View[float32](after[x.out[0]:][:x.node.Out[0].Meta.Bytes()])
		for k, w := range x.want[0].F {
			if g := float64(got[k]); !(math.Abs(g-w) <= 2*distance(w)) && g != float64(float32(w)) && !(math.IsNaN(g) && math.IsNaN(w)) {
				t.Errorf("%v of %v is %v, want %v", x.node, x.In[0].F[k], g, w)
			}
		}
	}
}

// everywhere are numbers of all sizes, and special ones.
func everywhere() (x []float64) {
	for e := -149.0; e < 128; e += 0.05 {
		v := float64(float32(math.Exp2(e)))
		x = append(x, v, -v)
	}
	for v := -105.0; v < 90; v += 0.0131 {
		x = append(x, float64(float32(v)))
	}
	return append(x, 0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, -math.MaxFloat32)
}

// distance is the distance between float32 numbers near w.
func distance(w float64) float64 {
	return math.Max(math.Exp2(math.Floor(math.Log2(math.Abs(w)))-23), math.SmallestNonzeroFloat32)
}

// Gradients are those of cpu where the gradient that comes in is infinite or NaN.
func TestSpecialGradients(t *testing.T) {
	r := newRig(t)
	var x, dy []float64
	for _, a := range []float64{-2, math.Copysign(0, -1), 0, 0.5, 2, math.NaN()} {
		for _, b := range []float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			x, dy = append(x, a), append(dy, b)
		}
	}
	functions := []string{"relu", "abs"}
	if testall.Wanted() {
		functions = append(functions, "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "log", "square", "silu", "gelu_erf", "gelu_tanh")
	}
	var list []kernelstest.Sample
	for _, fn := range functions {
		list = append(list, kernelstest.Of(ops.UnaryGrad{Fn: fn}, 1e-6, ref.Floats(x, len(x)), ref.Floats(dy, len(x))))
	}
	trials, image := r.trials(list)
	after := r.run(trials, image, 64)
	for _, x := range trials {
		l := x.prepareOnCPU(r)
		r.ok(l.Run(kernelstest.Serial{}))
		x.want[0] = ref.Floats(nil, x.node.Out[0].Meta.Elems())
		for _, v := range shape.View[float32](l.Out[0].Mem) {
			x.want[0].F = append(x.want[0].F, float64(v))
		}
		if err := x.check(after); err != nil {
			t.Error(err)
		}
	}
}
