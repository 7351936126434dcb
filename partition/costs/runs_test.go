package costs

import (
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// The newest runs of a kind are kept beside the times, by all who write.
func TestRunsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.json")
	k := Key{"work", "on"}
	if err := mustOpen(t, path).Add(t.Context(), map[Key]float64{k: 1}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		f := mustOpen(t, path)
		all.Go(func() {
			if err := f.AddRun(t.Context(), "a", float64(1+i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	f := mustOpen(t, path)
	if got := slices.Sorted(slices.Values(f.Runs("a"))); !slices.Equal(got, []float64{1, 2, 3, 4, 5, 6, 7, 8}) || f.Runs("b") != nil {
		t.Errorf("runs %v", got)
	}
	for i := range 2 * mostRuns {
		if err := f.AddRun(t.Context(), "a", float64(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	f = mustOpen(t, path)
	if got := f.Runs("a"); len(got) != mostRuns || got[mostRuns-1] != 99+2*mostRuns {
		t.Errorf("runs %v", got)
	}
	if s, known := f.Seconds(k); !known || s != 1 {
		t.Errorf("the time is %v, %v", s, known)
	}
	for _, ratio := range []float64{0, math.NaN(), math.Inf(1), 1001} {
		if err := f.AddRun(t.Context(), "a", ratio); err == nil {
			t.Errorf("a step took %v times as long as predicted", ratio)
		}
	}
}

// An interval leaves a tenth of the runs out, and a few say nothing.
func TestInterval(t *testing.T) {
	for _, x := range []struct {
		ratios    []float64
		low, high float64
		in        int
	}{
		{[]float64{1, 2, 3, 4}, 0, 0, 0},
		{[]float64{1.2, 0.9, 1, 1.1, 1.3}, 0.9, 1.3, 5},
		{[]float64{1, 1, 1, 9, 1, 1.1, 0.9, 1, 1, 1}, 0.9, 1.1, 9},
		{[]float64{1, 1, 1, 0.1, 1, 1.1, 0.9, 1, 1, 1}, 0.9, 1.1, 9},
	} {
		low, high, in, few := Interval(x.ratios)
		if low != x.low || high != x.high || in != x.in || few != (x.in == 0) {
			t.Errorf("%v: %v to %v in %d, few %v; want %v to %v in %d", x.ratios, low, high, in, few, x.low, x.high, x.in)
		}
	}
}

// Runs on other devices, or with other plans, are of other kinds.
func TestRunKind(t *testing.T) {
	one := []device.Spec{{Kind: "cpu", Numerics: "AVX2", Threads: 2}}
	two := []device.Spec{{Kind: "cpu", Numerics: "AVX2", Threads: 1}, {Kind: "cpu", Numerics: "AVX2", Threads: 1}}
	kinds := map[string]bool{
		RunKind(one, 1, 1, false, false): true, RunKind(one, 1, 1, true, false): true, RunKind(one, 1, 1, false, true): true,
		RunKind(two, 2, 1, false, false): true, RunKind(two, 1, 2, false, false): true,
	}
	if len(kinds) != 5 {
		t.Errorf("kinds %v", kinds)
	}
}
