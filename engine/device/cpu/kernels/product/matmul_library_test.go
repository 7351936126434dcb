package product

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/blas"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// withLibrary calls f with a rig whose products OpenBLAS computes, if it is installed.
func withLibrary(f func(r kernelstest.Rig)) {
	if l, err := blas.Open(); err == nil {
		r := rig
		r.On.Library = l
		f(r)
	}
}

// TestLibraryAgrees wants products, and attention, to meet the reference by the
// library too, with the same bits for any number of threads.
func TestLibraryAgrees(t *testing.T) {
	withLibrary(func(r kernelstest.Rig) {
		for _, kind := range []string{"matmul", "causal_attention", "causal_attention_grad"} {
			t.Run(kind, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					s := kernelstest.NewSource(t)
					r.Check(t, kernelstest.Cases[kind](s), s.Rng.Uint64())
				})
			})
		}
	})
}

// TestLargeProductsMeetTheLibrary compares products that would take the
// reference too long, in all layouts and with all instruction sets.
func TestLargeProductsMeetTheLibrary(t *testing.T) {
	for _, s := range [][3]int{{300, 700, 900}, {129, 65, 2000}, {512, 1030, 384}, {31, 3000, 70}}[:testall.Or(2, 4)] {
		for _, op := range []ops.MatMul{{}, {TransA: true}, {TransB: true}, {TransA: true, TransB: true}} {
			m, n, k := s[0], s[1], s[2]
			a, b := []int{m, k}, []int{k, n}
			if op.TransA {
				a = []int{k, m}
			}
			if op.TransB {
				b = []int{n, k}
			}
			in := []ref.Array{kernelstest.Noise(a...), kernelstest.Noise(b...)}
			withLibrary(func(r kernelstest.Rig) {
				want := r.Run(t, kernelstest.Sample{Op: op, In: in}, nil, kernelstest.Serial{})
				rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
					got := r.Run(t, kernelstest.Sample{Op: op, In: in}, nil, kernelstest.Serial{})
					g, w := shape.View[float32](got.Args.Out[0]), shape.View[float32](want.Args.Out[0])
					for i := range w {
						if math.Abs(float64(g[i]-w[i])) > 1e-4 {
							t.Fatalf("%v of %v: element %d is %v, the library's %v", op, s, i, g[i], w[i])
						}
					}
				})
			})
		}
	}
}
