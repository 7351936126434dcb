package sweep

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/golden"
)

var strategies = []string{configs.StrategyGrid, configs.StrategyRandom, configs.StrategyHalton, configs.StrategyTPE}

// drawnSpace is a sweep over lists and ranges of any kinds.
func drawnSpace(t *rapid.T) *configs.Sweep {
	s := &configs.Sweep{Strategy: rapid.SampledFrom(strategies).Draw(t, "strategy"), Seed: rapid.Uint64().Draw(t, "seed"), Metric: "val_loss", Keep: 3}
	for i := range rapid.IntRange(1, 4).Draw(t, "dimensions") {
		d := configs.Dimension{Key: "k" + strconv.Itoa(i)}
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		if s.Strategy == configs.StrategyGrid {
			kind = 0
		}
		switch kind {
		case 0:
			for v := range rapid.IntRange(1, 4).Draw(t, "values") {
				d.Values = append(d.Values, "v"+strconv.Itoa(v))
			}
		case 1:
			lo := rapid.IntRange(1, 100).Draw(t, "lo")
			d.Lo, d.Hi, d.Whole = float64(lo), float64(lo+rapid.IntRange(1, 100).Draw(t, "width")), true
			d.Log = rapid.Bool().Draw(t, "log")
		case 2:
			d.Lo = rapid.Float64Range(1e-6, 1e6).Draw(t, "lo")
			d.Hi = d.Lo + rapid.Float64Range(1e-8, 1e3).Draw(t, "width")*d.Lo
			d.Log = rapid.Bool().Draw(t, "log")
		}
		s.Vary = append(s.Vary, d)
	}
	s.Trials = []int{rapid.IntRange(1, min(60, s.Combinations())).Draw(t, "trials")}
	return s
}

// valued gives trials results that follow from their numbers alone.
func valued(n int) []Trial {
	trials := make([]Trial, n)
	for i := range trials {
		trials[i].Values = []float64{float64(i * 7 % 11)}
	}
	return trials
}

// TestSettings checks what holds for the trials of every sweep.
func TestSettings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnSpace(t)
		n := s.Total()
		all := Settings(s, valued(n))
		if len(all) != n {
			t.Fatalf("%d of %d trials", len(all), n)
		}
		seen := map[string]int{}
		for i, settings := range all {
			text := fmt.Sprint(settings)
			if seen[text] > 0 {
				t.Fatalf("trials %d and %d both have %s", seen[text], i+1, text)
			}
			seen[text] = i + 1
			for j, setting := range settings {
				checkValue(t, &s.Vary[j], setting)
			}
		}
		part := *s
		part.Trials = []int{rapid.IntRange(1, n).Draw(t, "part")}
		if !reflect.DeepEqual(Settings(&part, valued(n)), all[:part.Total()]) {
			t.Fatal("a sweep with more trials has others")
		}
		// Those of tpe follow from the results of trials up to eight before.
		known := rapid.IntRange(0, n).Draw(t, "results")
		some := Settings(s, valued(known))
		if want := min(n, max(known+lag, startup)); s.Strategy == configs.StrategyTPE && len(some) != want {
			t.Fatalf("with %d results there are %d trials, not %d", known, len(some), want)
		}
		if !reflect.DeepEqual(some, all[:len(some)]) {
			t.Fatal("with fewer results, trials are others")
		}
	})
}

// checkValue: a value is one of the list, or a number of the range.
func checkValue(t *rapid.T, d *configs.Dimension, setting configs.Setting) {
	if setting.Key != d.Key {
		t.Fatalf("%s in place of %s", setting.Key, d.Key)
	}
	if d.Values != nil {
		if !slices.Contains(d.Values, setting.Value) {
			t.Fatalf("%v has no %s", d.Values, setting.Value)
		}
		return
	}
	v, err := strconv.ParseFloat(setting.Value, 64)
	if err != nil || v < d.Lo || v > d.Hi || d.Whole && v != math.Trunc(v) {
		t.Fatalf("%s is not in %s", setting.Value, d)
	}
}

// TestEachCombinationOnce: a sweep with as many trials as there are combinations has each of them.
func TestEachCombinationOnce(t *testing.T) {
	for _, strategy := range strategies[1:] {
		s := &configs.Sweep{Strategy: strategy, Metric: "val_loss", Keep: 3, Vary: []configs.Dimension{
			{Key: "a", Lo: 1, Hi: 100, Whole: true, Log: true}, {Key: "b", Values: []string{"x", "y", "z"}}}}
		s.Trials = []int{s.Combinations()}
		seen := map[string]bool{}
		for _, settings := range Settings(s, valued(300)) {
			seen[fmt.Sprint(settings)] = true
		}
		if len(seen) != 300 {
			t.Errorf("%s: %d of 300 combinations", strategy, len(seen))
		}
	}
}

// TestSettingsGolden pins the trials of each strategy: a change of the sequence, or of its source in gonum, would make sweeps
// that are under way go on with others.
func TestSettingsGolden(t *testing.T) {
	var b strings.Builder
	for _, strategy := range strategies {
		for seed := range uint64(2) {
			s := &configs.Sweep{Strategy: strategy, Seed: seed, Metric: "val_loss", Keep: 3, Trials: []int{24}, Vary: []configs.Dimension{
				{Key: "optimizer.lr", Lo: 1e-4, Hi: 1e-1, Log: true},
				{Key: "model.dropout", Lo: 0, Hi: 0.5},
				{Key: "train.batch", Lo: 16, Hi: 256, Log: true, Whole: true},
				{Key: "model.hidden", Values: []string{"[64]", "[128, 64]", "[]"}},
			}}
			if strategy == configs.StrategyGrid {
				s.Vary = []configs.Dimension{{Key: "a", Values: []string{"1", "2", "3"}}, {Key: "b", Values: []string{"x", "y"}}, s.Vary[3]}
				s.Trials = []int{s.Combinations()}
				if seed > 0 {
					continue
				}
			}
			fmt.Fprintf(&b, "%s, seed %d\n", strategy, seed)
			for i, settings := range Settings(s, valued(24)) {
				fmt.Fprintf(&b, "%2d", i+1)
				for _, x := range settings {
					fmt.Fprintf(&b, "  %s=%s", x.Key, x.Value)
				}
				b.WriteString("\n")
			}
		}
	}
	golden.Check(t, "testdata/settings.golden", b.String())
}

// TestUnits: a range is divided evenly, by magnitude if it says so, and toUnit is the inverse.
func TestUnits(t *testing.T) {
	const n = 60_000
	for _, c := range []struct {
		d      configs.Dimension
		bounds []float64 // of parts that get an equal share
	}{
		{configs.Dimension{Lo: 1, Hi: 3, Whole: true}, []float64{1, 2, 3, 4}},
		{configs.Dimension{Lo: 1, Hi: 7, Whole: true, Log: true}, []float64{1, 2, 4, 8}},
		{configs.Dimension{Lo: 1e-4, Hi: 1e-1, Log: true}, []float64{1e-4, 1e-3, 1e-2, 0.2}},
		{configs.Dimension{Lo: -1, Hi: 2}, []float64{-1, 0, 1, 3}},
		{configs.Dimension{Values: []string{"a", "b", "c"}}, []float64{0, 1, 2, 3}},
	} {
		counts := make([]int, len(c.bounds)-1)
		for i := range n {
			v := fromUnit(&c.d, (float64(i)+0.5)/n)
			part := 0
			for v >= c.bounds[part+1] {
				part++
			}
			counts[part]++
			if again := fromUnit(&c.d, toUnit(&c.d, v)); math.Abs(again-v) > 2e-6*math.Abs(v) {
				t.Fatalf("%s: %v, and then %v", &c.d, v, again)
			}
		}
		for _, count := range counts {
			if math.Abs(float64(count)-n/3) > n/1000 {
				t.Errorf("%s: parts have %v of %d", &c.d, counts, n)
				break
			}
		}
		if lo, hi := fromUnit(&c.d, 0), fromUnit(&c.d, 1); c.d.Values == nil && (lo != c.d.Lo || hi != c.d.Hi) {
			t.Errorf("%s: the ends are %v and %v", &c.d, lo, hi)
		}
	}
}

func TestRounded(t *testing.T) {
	for _, c := range []struct{ v, width, want float64 }{
		{0.00312345678, 1, 0.00312346},
		{1234.56789, 1e6, 1234.57},
		{1234.56789, 0.01, 1234.56789},
		{-0.5, 1, -0.5},
		{0, 1, 0},
	} {
		if got := rounded(c.v, c.width); got != c.want {
			t.Errorf("%v of a range as wide as %v: got %v, want %v", c.v, c.width, got, c.want)
		}
	}
}

// TestProbes: each value occurs, and both ends of ranges.
func TestProbes(t *testing.T) {
	s := &configs.Sweep{Vary: []configs.Dimension{{Key: "a", Lo: 0.5, Hi: 2}, {Key: "b", Values: []string{"x", "y", "z"}}, {Key: "c", Values: []string{"only"}}}}
	var got []string
	for _, p := range Probes(s) {
		got = append(got, fmt.Sprint(p))
	}
	want := []string{"[{a 0.5} {b x} {c only}]", "[{a 2} {b y} {c only}]", "[{a 0.5} {b z} {c only}]"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestSettingsSetKeys: a config takes the settings of trials and probes as --set.
func TestSettingsSetKeys(t *testing.T) {
	s, err := configs.SweepOfFlags("digits", []string{"optimizer.lr=log:1e-4..1e-1", "train.batch=16..64", "model.hidden=[64],[128,64]", "optimizer=adam,sgd", "seed=1..1000000"},
		map[string]string{"trials": "40"})
	if err != nil {
		t.Fatal(err)
	}
	for _, settings := range slices.Concat(Settings(s, nil), Probes(s)) {
		var set []string
		for _, x := range settings {
			set = append(set, x.Key+"="+x.Value)
		}
		c, err := configs.Load(s.Config, configs.Overlay{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{strconv.FormatFloat(c.Optimizer.LR, 'g', -1, 64), strconv.Itoa(c.Train.Batch), strings.ReplaceAll(fmt.Sprint(c.Model.Hidden), " ", ", "), c.Optimizer.Name, fmt.Sprint(c.Seed)}
		for j, x := range settings {
			if x.Value != got[j] {
				t.Errorf("%s=%s gives %s", x.Key, x.Value, got[j])
			}
		}
	}
}
