package ref_test

import (
	"math"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// The mask belongs to an element's place in the global batch: cutting the
// batch does not change it, another step does.
func TestDropoutDependsOnTheGlobalIndex(t *testing.T) {
	o := ops.Dropout{P: 0.25, Seed: 1, ID: 2}
	x := ref.New(shape.F32(8, 5, 3))
	for i := range x.F {
		x.F[i] = 1
	}
	whole := compute(t, o, x, count(3), count(16))[0].F
	half := ref.Floats(x.F[:60], 4, 5, 3)
	parts := slices.Concat(compute(t, o, half, count(3), count(16))[0].F, compute(t, o, half, count(3), count(20))[0].F)
	near(t, "in two parts", parts, whole)
	if next := compute(t, o, x, count(4), count(16))[0].F; slices.Equal(next, whole) {
		t.Error("the next step has the same mask")
	}
	big := ref.New(shape.F32(100, 100))
	for i := range big.F {
		big.F[i] = 1
	}
	sum := 0.0
	for _, v := range compute(t, o, big, count(0), count(0))[0].F {
		if v != 0 && math.Abs(v-4.0/3) > 1e-15 {
			t.Fatalf("an element is %v", v)
		}
		sum += v
	}
	if mean := sum / 1e4; math.Abs(mean-1) > 0.03 { // five standard deviations of sqrt(P/(1-P)/n)
		t.Errorf("the mean is %v", mean)
	}
}
