package configs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

func parseSweep(t *testing.T, text string) *Sweep {
	t.Helper()
	s, err := ParseSweep("s.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unplacedSweep is the sweep without what differs between a file and flags.
func unplacedSweep(s *Sweep) *Sweep {
	out := *s
	out.Pos = Pos{}
	out.Vary = nil
	for _, d := range s.Vary {
		d.Pos = Pos{}
		out.Vary = append(out.Vary, d)
	}
	return &out
}

// TestSweep: a file, the same as flags, and the same written and read again are one sweep.
func TestSweep(t *testing.T) {
	s := parseSweep(t, `sweep:
  config: digits
  vary:
    optimizer.lr: log:1e-4..1e-1
    model.hidden: [[64], [128, 64]]
    train.batch: 16..64
    optimizer: [adam, sgd]
  trials: 40
  strategy: halton
  metric: val_f1
  halving: true
  seed: 7
  keep: 2
  at_once: 4
  keep_going: true
`)
	want := &Sweep{
		Config: "digits",
		Vary: []Dimension{
			{Key: "optimizer.lr", Lo: 1e-4, Hi: 1e-1, Log: true},
			{Key: "model.hidden", Values: []string{"[64]", "[128, 64]"}},
			{Key: "train.batch", Lo: 16, Hi: 64, Whole: true},
			{Key: "optimizer", Values: []string{"adam", "sgd"}},
		},
		Trials: []int{40}, Strategy: StrategyHalton, Metric: "val_f1", Halving: true, Seed: 7, Keep: 2, AtOnce: 4, KeepGoing: true,
	}
	if got := unplacedSweep(s); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if s.Pos != (Pos{"s.yaml", 2}) || s.Vary[1].Pos != (Pos{"s.yaml", 5}) {
		t.Errorf("positions %v, %v", s.Pos, s.Vary[1].Pos)
	}
	flags, err := SweepOfFlags("digits", []string{"optimizer.lr=log:1e-4..1e-1", "model.hidden=[64],[128,64]", "train.batch=16..64", "optimizer=adam,sgd"},
		map[string]string{"trials": "40", "metric": "val_f1", "halving": "true", "seed": "7", "keep": "2", "at-once": "4", "keep-going": "true"})
	if err != nil || !reflect.DeepEqual(unplacedSweep(flags), want) {
		t.Errorf("flags give %+v, %v", flags, err)
	}
	text, err := s.YAML()
	if err != nil || !IsSweep(text) {
		t.Fatal(string(text), err)
	}
	if again := unplacedSweep(parseSweep(t, string(text))); !reflect.DeepEqual(again, want) {
		t.Errorf("%s\ngives %+v", text, again)
	}
}

// TestSweepDefaults: what a short text leaves out.
func TestSweepDefaults(t *testing.T) {
	s := parseSweep(t, "sweep: {config: digits, vary: {train.batch: [16, 32.0, 64], seed: [1, 2]}}")
	if s.Strategy != StrategyGrid || s.Total() != 6 || s.Metric != "val_loss" || s.Keep != 3 || s.AtOnce != 0 || s.Seed != 1 {
		t.Errorf("got %+v", s)
	}
	if s = parseSweep(t, "sweep: {config: digits, vary: {optimizer.lr: 0.1..0.2}, trials: [40, 20]}"); s.Strategy != StrategyHalton || s.Total() != 60 {
		t.Errorf("got %+v", s)
	}
	if IsSweep([]byte("data: digits")) || IsSweep([]byte(":")) || IsSweep(nil) {
		t.Error("a config is a sweep")
	}
}

func TestCombinations(t *testing.T) {
	list := Dimension{Values: []string{"a", "b"}}
	for _, c := range []struct {
		vary []Dimension
		want int
	}{
		{[]Dimension{list, {Lo: -1, Hi: 3, Whole: true}}, 10},
		{[]Dimension{list, {Lo: 1, Hi: 3}}, math.MaxInt},
		{[]Dimension{{Lo: 1, Hi: 1 << 40, Whole: true}, {Lo: 1, Hi: 1 << 40, Whole: true}}, math.MaxInt},
	} {
		if got := (&Sweep{Vary: c.vary}).Combinations(); got != c.want {
			t.Errorf("%v: got %d, want %d", c.vary, got, c.want)
		}
	}
}

// TestSweepPaths: paths of a file begin at its folder, and those of flags at the working folder.
func TestSweepPaths(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSweep("sub/s.yaml", []byte("sweep: {config: my.yaml, vary: {data.path: [a.csv, /b.csv]}}"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, "sub/a.csv"), "/b.csv"}; s.Config != filepath.Join("sub", "my.yaml") || !reflect.DeepEqual(s.Vary[0].Values, want) {
		t.Errorf("got %q, %q, want %q", s.Config, s.Vary[0].Values, want)
	}
	s, err = SweepOfFlags("my.yaml", []string{"data.path=a.csv,/b.csv"}, nil)
	if want := []string{filepath.Join(dir, "a.csv"), "/b.csv"}; err != nil || s.Config != "my.yaml" || !reflect.DeepEqual(s.Vary[0].Values, want) {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestSweepValuesAreThoseOfSet: --set takes every value as it is written, in a config for which it is meant.
func TestSweepValuesAreThoseOfSet(t *testing.T) {
	s := parseSweep(t, `sweep: {config: digits, vary: {
  model.hidden: [[], [64, 32]], name: [a, "17"], data.split: [0.5, {val: 0.1, test: 0.2}], loss: [cross_entropy, {name: focal, gamma: 1}],
  devices: ["cpu:2", [{use: cpu, threads: 1}]], checkpoint.every: [10m, 5], optimizer.betas: [[0.9, 0.99]], early_stopping.patience: [3]}}`)
	for _, d := range s.Vary {
		for _, v := range d.Values {
			if _, err := Parse("c.yaml", []byte("data: {source: digits}\nmodel: {preset: mlp}\n"), Overlay{Set: []string{d.Key + "=" + v}}); err != nil {
				t.Errorf("%s=%s: %v", d.Key, v, err)
			}
		}
	}
}

// TestSweepErrors compares the messages about each broken sweep of testdata/sweep.in with
// testdata/sweep.golden. A line that begins with $ has flags.
func TestSweepErrors(t *testing.T) {
	in, err := os.ReadFile("testdata/sweep.in")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, body := range strings.Split(strings.TrimSpace(string(in)), "\n--\n") {
		fmt.Fprintf(&out, "-- %s\n", strings.ReplaceAll(body, "\n", "\n   "))
		if line, ok := strings.CutPrefix(body, "$ "); ok {
			var vary []string
			flags := map[string]string{}
			for _, f := range strings.Split(line, " --")[1:] {
				name, value, _ := strings.Cut(f, " ")
				if name == "vary" {
					vary = append(vary, value)
				} else {
					flags[name] = value
				}
			}
			_, err = SweepOfFlags("digits", vary, flags)
		} else {
			_, err = ParseSweep("s.yaml", []byte(body))
		}
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", body, err)
		}
		fmt.Fprintln(&out, err)
	}
	golden.Check(t, filepath.Join("testdata", "sweep.golden"), out.String())
}

// TestExtend: more trials are added as others, within what is possible.
func TestExtend(t *testing.T) {
	s := parseSweep(t, "sweep: {config: digits, vary: {train.batch: 1..60, train.shuffle: [true]}, trials: 40}")
	more, err := s.Extend(60)
	if err != nil || !reflect.DeepEqual(more.Trials, []int{40, 20}) || !reflect.DeepEqual(s.Trials, []int{40}) {
		t.Errorf("got %+v, %v", more, err)
	}
	for total, want := range map[int]string{
		40: "sweep.trials: got 40, expected more than the 40 that there are, and at most 60",
		61: "sweep.trials: got 61, expected more than the 40 that there are, and at most 60",
	} {
		if _, err := s.Extend(total); err == nil || err.Error() != want {
			t.Errorf("%d: got %v", total, err)
		}
	}
}

// TestContinues: a sweep goes on with another one that has more trials and says the same otherwise.
func TestContinues(t *testing.T) {
	text := func(trials, more string) string {
		return fmt.Sprintf("sweep: {config: digits, vary: {train.batch: 1..60}, trials: %s, halving: true%s}", trials, more)
	}
	for _, c := range []struct {
		before, now string
		want        []int
	}{
		{text("40", ""), text("60", ""), []int{40, 20}},
		{text("[30, 10]", ""), text("60", ""), []int{30, 10, 20}},
		{text("[30, 10]", ""), text("[30, 10, 5, 5]", ""), []int{30, 10, 5, 5}},
		{text("[30, 10]", ""), text("40", ""), []int{30, 10}},
		{text("40", ""), text("40", ""), []int{40}},
		{text("40", ""), text("30", ""), nil},
		{text("[30, 10]", ""), text("[20, 40]", ""), nil},
		{text("40", ""), text("60", ", keep: 4"), nil},
		{text("40", ""), text("60", ", seed: 2"), nil},
		{text("40", ""), strings.Replace(text("60", ""), "1..60", "1..61", 1), nil},
		{text("40", ""), strings.Replace(text("60", ""), "digits", "mnist-mlp", 1), nil},
	} {
		got, err := parseSweep(t, c.now).Continues(parseSweep(t, c.before))
		if err != nil || (got == nil) != (c.want == nil) || got != nil && !slices.Equal(got.Trials, c.want) {
			t.Errorf("%s after %s: %+v, %v", c.now, c.before, got, err)
		}
	}
}

// TestSweepTakesEveryKey: each key that --set takes may vary, its default is a value, and what a value is written as stays as it
// is. Other values are taken or refused.
func TestSweepTakesEveryKey(t *testing.T) {
	values := []string{"0", "1", "0.5", "-1", "1e300", "x", "'1'", "[]", "[1, 2]", "[[a], [b]]", "[x, [y]]", "{}", "{a: b}", "{val: 0.1}", "true", "~", "1h", "50%",
		"[{type: dense, units: 3}]", "[{type: x}]", "{name: huber, delta: 2}", "{name: huber, delta: -2}", "cpu:2", "log:1..2", "1..2", "1..2.5"}
	for path, lf := range allLeaves() {
		list := values
		if lf.key.def != "" {
			list = append(list[:len(list):len(list)], lf.key.def)
		}
		for i, v := range list {
			text := fmt.Sprintf("sweep: {config: digits, trials: 1, vary: {%s: [%s]}}", path, v)
			s, err := ParseSweep("s.yaml", []byte(text))
			if err != nil {
				if i == len(values) {
					t.Errorf("%s: the default %s is refused: %v", path, v, err)
				}
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			written, err := s.YAML()
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if again := parseSweep(t, string(written)); !reflect.DeepEqual(unplacedSweep(again), unplacedSweep(s)) {
				t.Errorf("%s\n%s gives %q, and then %q", text, written, s.Vary[0].Values, again.Vary[0].Values)
			}
		}
	}
}
