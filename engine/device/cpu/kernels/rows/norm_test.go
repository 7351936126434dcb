package rows

import (
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestBatchNormOfEmptyPlanes has channels without pixels.
func TestBatchNormOfEmptyPlanes(t *testing.T) { rig.EachISA(t, testEmptyPlanes) }

func testEmptyPlanes(t *testing.T, r kernelstest.Rig) {
	of, each := func(dims ...int) ref.Array { return ref.New(shape.F32(dims...)) }, ref.New(shape.F32(24))
	for _, x := range []ref.Array{of(2, 24, 0, 3), of(0, 24, 2, 2)} {
		r.Check(t, kernelstest.Of(ops.BatchNormEval{Eps: 1e-5}, 0, x, each, each, each, each), 1)
	}
}
