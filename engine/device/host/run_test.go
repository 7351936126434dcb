package host

import (
	"math"
	"strings"
	"testing"
)

func TestPanicBecomesError(t *testing.T) {
	err := launchOnce(t, toy(t, func(in, _ [][]byte) error {
		_ = in[0][99]
		return nil
	}))
	if err == nil || !strings.Contains(err.Error(), "BUG: kernel panicked") || !strings.Contains(err.Error(), "neg") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error %v", err)
	}
}

func TestFirstNonFinite(t *testing.T) {
	for n := range 70 {
		x := make([]float32, n)
		for i := range x {
			x[i] = -math.MaxFloat32 * float32(i&1*2-1)
		}
		if got := firstNonFinite(x); got != -1 {
			t.Fatalf("%d finite numbers: %d", n, got)
		}
		for i := range x {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				old := x[i]
				x[i] = float32(bad)
				if got := firstNonFinite(x); got != i {
					t.Fatalf("%v at %d of %d: %d", bad, i, n, got)
				}
				x[i] = old
			}
		}
	}
}

func BenchmarkFirstNonFinite(b *testing.B) {
	x := make([]float32, 1<<14)
	b.SetBytes(4 << 14)
	for b.Loop() {
		firstNonFinite(x)
	}
}
