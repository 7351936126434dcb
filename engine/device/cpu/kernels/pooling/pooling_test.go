package pooling

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// rig makes this package's kernels.
var rig = kernelstest.Rig{On: work.TargetOf(isa.Best()), New: work.New(Kernels)}

// TestMaxPoolOfNonFinite puts NaN, infinities and zeros of both signs into
// windows side by side, and wants the first NaN, else the first largest.
func TestMaxPoolOfNonFinite(t *testing.T) { rig.EachISA(t, testMaxPoolOfNonFinite) }

func testMaxPoolOfNonFinite(t *testing.T, r kernelstest.Rig) {
	rng := rand.New(rand.NewPCG(3, 4))
	some := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1, -1}
	for i, w := range []int{2, 5, 14, 28, 33, 64, 71} {
		h := 7 + i%2
		for _, op := range []ops.MaxPool2D{{Kernel: 2, Stride: 2}, {Kernel: 3, Stride: 2, Pad: 1}, {Kernel: 3, Stride: 1, Pad: 1}, {Kernel: 2, Stride: 1}, {Kernel: 5, Stride: 2, Pad: 2}, {Kernel: 3, Stride: 3, Pad: 1}, {Kernel: 4, Stride: 5, Pad: 2}} {
			x := kernelstest.Noise(2, 3, h, w)
			for i := range x.F {
				x.F[i] = some[rng.IntN(len(some))]
			}
			l := r.Run(t, kernelstest.Of(op, 0, x), nil, kernelstest.Serial{})
			y, idx, in := shape.View[float32](l.Out[0].Mem), shape.View[int32](l.Out[1].Mem), shape.View[float32](l.In[0].Mem)
			s := l.Node.Out[0].Meta.Shape
			k := pool2dOf(r.On, x.Meta.Shape, s, op.Kernel, op.Stride, op.Pad)
			for i := range y {
				ow, oh, plane := i%s[3], i/s[3]%s[2], in[i/(s[2]*s[3])*h*w:]
				h0, h1 := k.window(oh, h)
				w0, w1 := k.window(ow, w)
				want := largest(plane, w, h0, h1, w0, w1)
				if int(idx[i]) != want || math.Float32bits(y[i]) != math.Float32bits(plane[want]) {
					t.Fatalf("%+v, %dx%d: window %d is %v at %d, want %v at %d", op, h, w, i, y[i], idx[i], plane[want], want)
				}
			}
		}
	}
}

// TestMaxPoolGradOfOtherWindows gives indices of windows that overlap, in planes
// of the sides that windows of 2x2 would have.
func TestMaxPoolGradOfOtherWindows(t *testing.T) { rig.EachISA(t, testMaxPoolGradOfOtherWindows) }

func testMaxPoolGradOfOtherWindows(t *testing.T, r kernelstest.Rig) {
	idx := ref.New(shape.I32(1, 2, 5, 20))
	for i := range idx.I {
		idx.I[i] = int32(i * i % (10 * 41))
	}
	r.Check(t, kernelstest.Of(ops.MaxPool2DGrad{H: 10, W: 41}, 1e-6, idx, kernelstest.Noise(1, 2, 5, 20)), 5)
}

// TestMaxPoolGradOfImpossibleIndex names an index outside its plane.
func TestMaxPoolGradOfImpossibleIndex(t *testing.T) {
	l, err := rig.Prepare(ops.MaxPool2DGrad{H: 2, W: 2}, []ref.Array{ref.Ints([]int32{4}, 1, 1, 1, 1), ref.Floats([]float64{1}, 1, 1, 1, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Run(kernelstest.Serial{}); err == nil || !strings.Contains(err.Error(), "index 4 at position 0") {
		t.Errorf("got %v", err)
	}
}
