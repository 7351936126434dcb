package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// took has devices take so many seconds for their passes of some steps, and tells after how many of these they are uneven; -1:
// they never are.
func took(s *Stages, steps int, seconds ...float64) int {
	for i := range steps {
		if s.Took(seconds); s.apart >= s.wait {
			return i + 1
		}
	}
	return -1
}

func TestUneven(t *testing.T) {
	var s Stages
	s.Begin([]float64{1, 2})
	if n := took(&s, 1000, 3, 6); n >= 0 {
		t.Errorf("devices that are all three times as slow as planned are uneven after %d steps", n)
	}
	if n := took(&s, 1000, 3, 7); n >= 0 {
		t.Errorf("17%% are uneven after %d steps", n)
	}
	s.Begin([]float64{1, 2})
	s.wait = ApartSteps
	if n := took(&s, 200, 1, 3); n != ApartSteps+fewest-1 {
		t.Errorf("50%% are uneven after %d steps", n)
	}
	if seconds, ok := s.Uneven(); !ok || !slices.Equal(seconds, []float64{1, 3}) {
		t.Errorf("%v, %v", seconds, ok)
	}
	s.Keep(0) // nothing is to be done about these times
	if n := took(&s, 1000, 1, 3); n >= 0 {
		t.Errorf("the times of before are uneven after %d steps", n)
	}
	if n := took(&s, 1000, 1, 9); n < ApartSteps {
		t.Errorf("others are uneven after %d steps", n)
	}
	s.Keep(18 * time.Second) // two steps
	if n := took(&s, 1000, 1, 20); n < 200 {
		t.Errorf("after a search that took long, others are uneven after %d steps", n)
	}
}

// Where times differ for fewer steps than it takes, nothing is uneven, whatever the older samples say.
func TestUnevenForShort(t *testing.T) {
	var s Stages
	s.Begin([]float64{1, 1})
	for range 100 {
		if n := took(&s, ApartSteps-10, 1, 100); n >= 0 {
			t.Fatalf("uneven after %d steps", n)
		}
		if n := took(&s, 20, 1, 1); n >= 0 {
			t.Fatalf("uneven after %d even steps", n)
		}
	}
}

// A device that was slow and has recovered is judged by what it takes now, also where that is still another time than planned.
func TestUnevenAfterRecovery(t *testing.T) {
	var s Stages
	s.Begin([]float64{1e-3, 1e-3})
	if n := took(&s, ApartSteps-20, 1e-3, 3); n >= 0 {
		t.Fatalf("uneven after %d slow steps", n)
	}
	if n := took(&s, 10*sampleSteps, 1e-3, 1.5e-3); n < 0 || s.seconds[1] > 2e-3 {
		t.Errorf("after %d steps, the devices take %v", n, s.seconds)
	}
}

// Passes that the clock does not see take some time all the same.
func TestUnseenPasses(t *testing.T) {
	var s Stages
	s.Begin([]float64{1, 1})
	took(&s, 10*sampleSteps, 0, 1e-3)
	if seconds, ok := s.Uneven(); !ok || seconds[0] <= 0 {
		t.Errorf("%v, %v", seconds, ok)
	}
}

// After each change, the next one takes longer.
func TestStagesSettle(t *testing.T) {
	var s Stages
	changes := 0
	s.Begin([]float64{1, 1})
	for range 20_000 {
		s.Took([]float64{1, 2})
		if _, ok := s.Uneven(); ok {
			changes++
			s.Begin([]float64{1, 1})
		}
	}
	if changes < 5 || changes > 10 {
		t.Errorf("%d changes in 20,000 steps", changes)
	}
}

func TestPays(t *testing.T) {
	for _, c := range []struct {
		before, after float64
		steps         int
		cost          time.Duration
		want          bool
	}{
		{1, 0.5, 10, time.Second, true},
		{1, 0.5, 2, time.Second, false}, // too late
		{1, 0.95, 1000, 0, false},
		{1, 1, 1000, 0, false},
		{1, 2, 1000, 0, false},
		{1e-3, 5e-4, 1e6, time.Second, false}, // a thousand steps count
		{1e-3, 5e-4, 1000, 0, true},
		{1e-4, 5e-5, 1e6, 0, false}, // too little
		{1, 0.5, 0, 0, false},
	} {
		if got := Pays(c.before, c.after, c.steps, c.cost); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// What was measured with other blocks counts while devices are as fast as then.
func TestCuts(t *testing.T) {
	c := Cuts{}
	if c.Leave("a", []float64{1, 4}); c.Vain("b", []float64{4, 1}, "a") {
		t.Error("the first change back is in vain")
	}
	c.Leave("b", []float64{4, 1})
	for _, x := range []struct {
		seconds []float64
		want    bool
	}{
		{[]float64{1, 4}, true},
		{[]float64{1.1, 3.7}, true},
		{[]float64{1, 8}, false}, // a device has become slow
		{[]float64{1, 1}, false}, // or has recovered
	} {
		if got := c.Vain("a", x.seconds, "b"); got != x.want {
			t.Errorf("%v: %v", x.seconds, got)
		}
	}
	if c.Leave("b", []float64{2, 1}); c.Vain("a", []float64{1, 4}, "b") {
		t.Error("a change to blocks with which the slowest device took half the time is in vain")
	}
	c.Refuse("b", 2)
	if !c.Vain("a", []float64{1, 4}, "b") || c.Vain("a", []float64{1, 8}, "b") || c.Vain("b", []float64{1, 4}, "a") {
		t.Error("refused blocks come back, or never do, or stay")
	}
}

// A pipeline of blocks whose true times are up to twice off, on devices of which any is slow, gets cuts that are forecast by
// what is measured. It settles, and its slowest device takes no more than before by more than what blocks cannot divide.
func TestStagesOfAnyBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(4, 12).Draw(t, "blocks")
		truth := make([]float64, n)
		for i := range truth {
			truth[i] = rapid.Float64Range(0.7, 1.4).Draw(t, "seconds")
		}
		slow := []float64{1, rapid.SampledFrom([]float64{1, 1.5, 4, 100}).Draw(t, "slowness")}
		sum := func(blocks []float64) (s float64) {
			for _, b := range blocks {
				s += b
			}
			return s
		}
		measured := func(at int) []float64 { return []float64{slow[0] * sum(truth[:at]), slow[1] * sum(truth[at:])} }
		planned := func(at int) []float64 { return []float64{float64(at), float64(n - at)} }
		at, changes, cuts := n/2, 0, Cuts{}
		first := slices.Max(measured(at))
		for {
			by := Slowness(measured(at), planned(at))
			best, time := at, math.Inf(1)
			for cut := 1; cut < n; cut++ {
				if x := max(by[0]*float64(cut), by[1]*float64(n-cut)); x < time {
					best, time = cut, x
				}
			}
			now := max(by[0]*float64(at), by[1]*float64(n-at))
			if !Pays(now, time, 1000, 0) || cuts.Vain(fmt.Sprint(at), measured(at), fmt.Sprint(best)) {
				break
			}
			cuts.Leave(fmt.Sprint(at), measured(at))
			at = best
			if changes++; changes > 2*n {
				t.Fatalf("%d changes, and no end", changes)
			}
		}
		if last := slices.Max(measured(at)); last > first*1.1+1.4*2 {
			t.Errorf("the slowest device took %v, and takes %v after %d changes", first, last, changes)
		}
	})
}

// A device with little work is not taken for faster than the one with the most.
func TestSlowness(t *testing.T) {
	for _, c := range []struct{ seconds, planned, want []float64 }{
		{[]float64{2, 6}, []float64{1, 2}, []float64{2, 3}},
		{[]float64{1, 30}, []float64{1, 10}, []float64{3, 3}},
		{[]float64{9, 30}, []float64{1, 10}, []float64{9, 3}},
	} {
		if got := Slowness(c.seconds, c.planned); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
