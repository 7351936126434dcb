package configs

import (
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/internal/units"
)

// sweepKey is the only key of a sweep's file.
const sweepKey = "sweep"

// mostTrials is the largest number of trials of a sweep.
const mostTrials = 10_000

// sweepFile is the file of a sweep.
var sweepFile = &section{
	pos:  posOf(func(*Sweep) *Pos { return new(Pos) }),
	keys: []*key{{name: sweepKey, kind: sweepSection, at: at(func(s *Sweep) *Sweep { return s }), required: true}},
}

var sweepSection = &section{
	doc: "Many trainings of one config, each with other values of some keys.",
	pos: posOf(func(s *Sweep) *Pos { return &s.Pos }),
	keys: []*key{
		{name: "config", kind: configName{}, at: at(func(s *Sweep) *string { return &s.Config }), required: true,
			doc: "the config that is trained"},
		{name: "vary", kind: dimensions{}, at: at(func(s *Sweep) *[]Dimension { return &s.Vary }), required: true,
			doc: "what differs between trials. A list gives values. `lo..hi` is a range, with `log:` before it even by magnitude; a key that takes whole numbers has whole ones"},
		{name: "trials", kind: cohorts{}, at: at(func(s *Sweep) *[]int { return &s.Trials }),
			doc: "number of trials; `grid` has all combinations unless it is given. A list such as `[40, 20]`: 40, and 20 that were added later"},
		{name: "strategy", kind: enum{StrategyGrid, StrategyRandom, StrategyHalton, StrategyTPE}, at: at(func(s *Sweep) *string { return &s.Strategy }),
			doc: "which values the trials have. `grid`: all combinations of lists, the last key first; `random`: independent draws; `halton`: a scrambled Halton sequence, which leaves no gaps; `tpe`: a tree-structured Parzen estimator, which draws where earlier trials were good. Unless given, `halton` where a key has a range, and `grid` otherwise"},
		{name: "metric", kind: metricName{}, at: at(func(s *Sweep) *string { return &s.Metric }), def: "val_loss",
			doc: "the metric that ranks trials, named as in `checkpoint.best`"},
		{name: "halving", kind: boolean{}, at: at(func(s *Sweep) *bool { return &s.Halving }), def: "false",
			doc: "all trials train for a ninth of their steps, the best third of them for a third, and the best ninth to the end"},
		{name: "seed", kind: seed{}, at: at(func(s *Sweep) *uint64 { return &s.Seed }), def: "1",
			doc: "decides the values that are drawn; that of a training is the config's"},
		{name: "keep", kind: positive, at: at(func(s *Sweep) *int { return &s.Keep }), def: "3",
			doc: "trials whose checkpoints stay: the best ones"},
		{name: "at_once", kind: orNumber{"auto"}, at: at(func(s *Sweep) *int { return &s.AtOnce }), def: "auto",
			doc: "trials that may run at once; `auto`: one for each device"},
		{name: "keep_going", kind: boolean{}, at: at(func(s *Sweep) *bool { return &s.KeepGoing }), def: "false",
			doc: "the sweep goes on though its first three trials failed"},
	},
}

// noPaths: a sweep's unknown key cannot mean one of a config.
func noPaths() []string { return nil }

// sweep decodes the tree of a sweep's file.
func (d *decoder) sweep(root *yaml.Node) (*Sweep, error) {
	if err := registeredNames(); err != nil {
		return nil, err
	}
	s := &Sweep{}
	sweepFile.decode(d, root, "", s)
	if len(d.faults) == 0 {
		s.finish(d)
	}
	if err := joinFaults(d.faults); err != nil {
		return nil, err
	}
	return s, nil
}

// finish fills in what follows from several keys, and checks that they agree.
func (s *Sweep) finish(d *decoder) {
	ranged := -1 // a dimension with a range
	for i := range s.Vary {
		if s.Vary[i].Values == nil {
			ranged = i
		}
	}
	if s.Strategy == "" {
		s.Strategy = StrategyGrid
		if ranged >= 0 {
			s.Strategy = StrategyHalton
		}
	}
	if s.Strategy == StrategyGrid && ranged >= 0 {
		d.fail(s.Vary[ranged].Pos, s.Vary[ranged].Key, "strategy %s takes lists, and %s is a range: list its values, or take %s", StrategyGrid, s.Vary[ranged].rangeText(), StrategyHalton)
		return
	}
	all := s.Combinations()
	if s.Trials == nil {
		switch {
		case s.Strategy != StrategyGrid:
			d.fail(s.Pos, "sweep.trials", "missing, expected %s: strategy %s goes on for ever", cohorts{}.expect(), s.Strategy)
		case all > mostTrials:
			d.fail(s.Pos, "sweep.trials", "there are %s combinations, more than %s: shorten the lists, or give trials", counted(all), units.Thousands(mostTrials))
		}
		s.Trials = []int{all}
	}
	if n := s.Total(); n > all {
		d.against([]string{"sweep.trials"}, "got %s, and there are %s combinations, each of which is trained once: give at most as many", units.Thousands(n), units.Thousands(all))
	}
}

// counted is a number of combinations in words.
func counted(n int) string {
	if n == math.MaxInt {
		return "more than 2^63"
	}
	return units.Thousands(n)
}
