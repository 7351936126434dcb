package strided

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
)

// TestRowsAreMoved copies, stretches and transposes rows of random sizes, with
// what lies between and behind them left as it was.
func TestRowsAreMoved(t *testing.T) {
	kernelstest.Rig{}.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		rng := rand.New(rand.NewPCG(6, 7))
		for range 500 {
			rows, n := 1+rng.IntN(70), 1+rng.IntN(70)
			apart, ystride := n+rng.IntN(9), max(rows, n)+rng.IntN(9)
			x := make([]int32, (rows-1)*apart+n)
			for i := range x {
				x[i] = int32(rng.Uint32())
			}
			y := make([]int32, max(rows, n)*ystride)
			for i := range y {
				y[i] = int32(-i)
			}
			for what, at := range []func(r, c int) (to, from int){
				func(r, c int) (to, from int) { return r*ystride + c, r*apart + c },
				func(r, c int) (to, from int) { return r*ystride + c, r * apart },
				func(r, c int) (to, from int) { return c*ystride + r, r*apart + c },
			} {
				got, want := slices.Clone(y), slices.Clone(y)
				for i := range rows * n {
					to, from := at(i/n, i%n)
					want[to] = x[from]
				}
				switch what {
				case 0:
					CopyRows(r.On.ISA, got, x, ystride, apart, rows, n)
				case 1:
					StretchRows(r.On.ISA, got, x, ystride, apart, rows, n)
				case 2:
					Transpose(r.On.ISA, got, ystride, x, apart, rows, n)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("way %d of moving %d rows of %d: wrong elements", what, rows, n)
				}
			}
		}
	})
}
