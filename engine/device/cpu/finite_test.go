package cpu

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
)

func TestFinite(t *testing.T) {
	p := newPool(2)
	defer p.close()
	for set := isa.Generic; set <= isa.Best(); set++ {
		f := newFinite(p, set)
		for _, n := range []int{0, 1, 31, finiteGrain, 3*finiteGrain + 5} {
			x := make([]float32, n)
			for i := range x {
				x[i] = math.MaxFloat32
			}
			if !f.all(x) {
				t.Errorf("%v: %d finite numbers are not", set, n)
			}
			for i := 0; i < n; i += 1 + n/61 {
				for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
					x[i] = float32(bad)
					if f.all(x) {
						t.Errorf("%v: %v at %d of %d is not found", set, bad, i, n)
					}
				}
				x[i] = math.MaxFloat32
			}
			for i := range x { // infinities that would cancel each other
				x[i] = float32(math.Inf(i&1*2 - 1))
			}
			if n > 0 && f.all(x) {
				t.Errorf("%v: %d infinities are not found", set, n)
			}
		}
	}
}
