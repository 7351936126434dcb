package sweep

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/configs"
)

func TestRungs(t *testing.T) {
	for _, c := range []struct {
		steps, boundary int
		want            []int
	}{
		{1800, 45, []int{225, 630, 1800}},
		{900, 1, []int{100, 300, 900}},
		{901, 1, []int{101, 301, 901}},
		{900, 100, []int{100, 300, 900}},
		{100, 40, []int{40, 40, 100}},
		{100, 70, []int{70, 70, 100}},
		{100, 200, []int{100, 100, 100}},
		{1, 1, []int{1, 1, 1}},
	} {
		if got := Rungs(simple(9, halved), c.steps, c.boundary); !slices.Equal(got, c.want) {
			t.Errorf("%d steps with a boundary each %d: got %v, want %v", c.steps, c.boundary, got, c.want)
		}
		if got := Rungs(simple(9), c.steps, c.boundary); !slices.Equal(got, []int{c.steps}) {
			t.Errorf("without halving: got %v", got)
		}
	}
}

// TestMostOfDigits is the example of the documentation: 40 trials of digits take at most 26 % of their steps.
func TestMostOfDigits(t *testing.T) {
	most, whole := Most(simple(40, halved), []Length{{1800, 45}})
	if most != 40*225+13*(630-225)+4*(1800-630) || whole != 72_000 || 100*most/whole != 26 {
		t.Errorf("%d of %d steps", most, whole)
	}
	if most, whole = Most(simple(40), []Length{{1800, 45}}); most != 72_000 || whole != 72_000 {
		t.Errorf("without halving: %d of %d steps", most, whole)
	}
}

// TestMost: no sweep takes more steps than foretold, and one of equal lengths in which nothing fails takes just these.
func TestMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnSweep(t)
		equal := rapid.Bool().Draw(t, "equal")
		var fates []fate
		var lengths []Length
		for range s.Total() {
			f := drawnFate(t, s)
			l := Length{rapid.IntRange(1, 1000).Draw(t, "steps"), rapid.IntRange(1, 100).Draw(t, "boundary")}
			if equal {
				f.fails, f.ends = -1, -1
			}
			fates, lengths = append(fates, f), append(lengths, l)
		}
		if equal {
			lengths = lengths[:1]
		}
		most, whole := Most(s, lengths)
		steps := 0
		for i, reached := range reference(s, fates).reached {
			l := lengths[i%len(lengths)]
			if reached > 0 {
				steps += Rungs(s, l.Steps, l.Boundary)[reached-1]
			}
		}
		if steps > most || most > whole || equal && steps != most {
			t.Fatalf("%d steps, and at most %d of %d were foretold", steps, most, whole)
		}
	})
}

// TestCheckpointsOfDigits: with halving, those that can still be promoted have theirs.
func TestCheckpointsOfDigits(t *testing.T) {
	for _, c := range []struct {
		sweep *configs.Sweep
		want  int
	}{{simple(40, halved), 15}, {simple(40), 5}, {simple(2), 2}} {
		if got := Checkpoints(c.sweep, 2); got != c.want {
			t.Errorf("%d trials: got %d, want %d", c.sweep.Total(), got, c.want)
		}
	}
}
