package sweep

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/configs"
	_ "github.com/berth-ml/berth/engine/models" // registers layers
	_ "github.com/berth-ml/berth/engine/ops"    // registers schedules
	_ "github.com/berth-ml/berth/engine/optim"  // registers optimizers
	"github.com/berth-ml/berth/internal/testall"
)

func TestMain(m *testing.M) {
	testall.Checks(200, 2000)
	m.Run()
}

var errTraining = errors.New("the loss is not finite")

// fate is what a trial would reach if it trained to its end.
type fate struct {
	values []float64 // at each rung
	fails  int       // the rung on the way to which it fails; -1: none
	ends   int       // the rung before which it ends by itself, with the value of that rung; -1: none
}

func rungs(s *configs.Sweep) int { return len(rungSizes(s, 1)) }

// drawnFate gives values of which some are equal and some are not finite.
func drawnFate(t *rapid.T, s *configs.Sweep) fate {
	f := fate{fails: -1, ends: -1}
	value := rapid.OneOf(rapid.Map(rapid.IntRange(0, 9), func(v int) float64 { return float64(v) }), rapid.Float64Range(0, 9),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}))
	for range rungs(s) {
		f.values = append(f.values, value.Draw(t, "value"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "fate") {
	case 0, 1:
		f.fails = rapid.IntRange(0, len(f.values)-1).Draw(t, "fails")
	case 2:
		f.ends = rapid.IntRange(0, len(f.values)-1).Draw(t, "ends")
		for i := range f.values[f.ends:] {
			f.values[f.ends+i] = f.values[f.ends]
		}
	}
	return f
}

// drawnSweep has trials of any number, of which some may have been added later.
func drawnSweep(t *rapid.T) *configs.Sweep {
	s := &configs.Sweep{
		Vary:      []configs.Dimension{{Key: "optimizer.lr", Lo: 1e-4, Hi: 1, Log: true}, {Key: "optimizer", Values: []string{"adam", "sgd"}}},
		Strategy:  rapid.SampledFrom([]string{configs.StrategyRandom, configs.StrategyHalton, configs.StrategyTPE}).Draw(t, "strategy"),
		Metric:    rapid.SampledFrom([]string{"val_loss", "val_accuracy"}).Draw(t, "metric"),
		Halving:   rapid.Bool().Draw(t, "halving"),
		Seed:      rapid.Uint64Range(0, 3).Draw(t, "seed"),
		Keep:      rapid.IntRange(1, 5).Draw(t, "keep"),
		KeepGoing: rapid.Bool().Draw(t, "keep going"),
	}
	for range rapid.IntRange(1, 2).Draw(t, "cohorts") {
		s.Trials = append(s.Trials, rapid.IntRange(1, 30).Draw(t, "trials"))
	}
	return s
}

// simulation trains the trials of a sweep in some order.
type simulation struct {
	sweep    *configs.Sweep
	fates    []fate
	trials   []Trial
	goals    []int // the rungs up to which trials may train
	begun    []bool
	decision Decision
	more     []int // cohorts of trials that are added later
}

func newSimulation(s *configs.Sweep, fates []fate) *simulation {
	m := &simulation{sweep: s, fates: fates, goals: make([]int, len(fates)), begun: make([]bool, len(fates))}
	m.add()
	return m
}

// add adds trials.
func (m *simulation) add(cohorts ...int) {
	with := *m.sweep
	with.Trials = append(slices.Clone(with.Trials), cohorts...)
	m.sweep, m.trials = &with, append(m.trials, make([]Trial, with.Total()-len(m.trials))...)
	m.decision = Decide(m.sweep, m.trials)
}

// begin lets a trial train.
func (m *simulation) begin(r Ready) {
	t := &m.trials[r.Trial-1]
	t.Running, m.begun[r.Trial-1], m.goals[r.Trial-1] = true, true, r.Rung
	if t.Settings == nil {
		t.Settings = r.Settings
	}
}

// reach lets a running trial get to its goal.
func (m *simulation) reach(i int) {
	t, f := &m.trials[i], m.fates[i]
	t.Running = false
	if f.fails == m.goals[i] {
		t.Err = errTraining
		return
	}
	t.Values = append(t.Values, f.values[m.goals[i]])
	t.Ended = f.ends == m.goals[i]
}

func (m *simulation) running() (list []int) {
	for i, t := range m.trials {
		if t.Running {
			list = append(list, i)
		}
	}
	return list
}

// settled: in a trial's state nothing can change.
func settled(s State) bool { return s == Finished || s == Out || s == Failed }

// run goes on until the sweep is over. choose draws a number below n; atOnce trials run at a time, and a trial is suspended now and
// then.
func (m *simulation) run(t *rapid.T, atOnce int, choose func(n int) int) {
	for !m.decision.Over || len(m.more) > 0 {
		running := m.running()
		before := m.decision
		switch kind := choose(5); {
		case len(m.more) > 0 && (m.decision.Over || kind == 4 && choose(10) == 0):
			m.add(m.more...)
			m.more, before.Delete = nil, nil // a sweep that was over needed those of failed trials no more
			m.checkSettled(t, before)
			continue
		case len(running) < atOnce && len(m.decision.Ready) > 0 && (kind < 2 || len(running) == 0):
			m.begin(m.decision.Ready[choose(len(m.decision.Ready))])
		case len(running) == 0:
			t.Fatalf("nothing runs, nothing is ready, and the sweep is not over: %v", m.decision.States)
		case kind == 2:
			m.trials[running[choose(len(running))]].Running = false
		default:
			m.reach(running[choose(len(running))])
		}
		m.decision = Decide(m.sweep, m.trials)
		m.checkSettled(t, before)
	}
}

// checkSettled: what was settled stays.
func (m *simulation) checkSettled(t *rapid.T, before Decision) {
	for i, s := range before.States {
		if settled(s) && m.decision.States[i] != s {
			t.Fatalf("trial %d was %s, and then %s", i+1, s, m.decision.States[i])
		}
	}
	for _, i := range before.Delete {
		if !slices.Contains(m.decision.Delete, i) {
			t.Fatalf("the checkpoint of trial %d was not needed, and then it was", i)
		}
	}
}

// outcome is how a sweep ends.
type outcome struct {
	states  []State
	reached []int // the number of rungs that each trial has reached
	best    int
	won     bool // the best trial has a finite value at its end
}

// reference halves round by round: all trials of a cohort train to a rung, then the best are chosen.
func reference(s *configs.Sweep, fates []fate) (o outcome) {
	o.states, o.reached = make([]State, len(fates)), make([]int, len(fates))
	finiteAt := slices.Repeat([]int{-1}, len(fates))
	lower := configs.LowerIsBetter(s.Metric)
	first := 0
	for _, n := range s.Trials {
		var members []int
		for i := range n {
			members = append(members, first+i)
		}
		first += n
		failed := make([]bool, len(fates))
		for rung := range rungs(s) {
			for _, i := range members {
				f := fates[i]
				failed[i] = failed[i] || f.fails == rung
				if failed[i] {
					continue
				}
				o.reached[i] = rung + 1
				if f.ends >= 0 {
					o.reached[i] = min(rung, f.ends) + 1
				}
				if finite(f.values[rung]) {
					finiteAt[i] = rung
				}
			}
			score := func(i int) float64 { // the lower the better
				v := fates[i].values[rung]
				switch {
				case failed[i] || !finite(v):
					return math.Inf(1)
				case lower:
					return v
				}
				return -v
			}
			slices.SortFunc(members, func(a, b int) int { return cmp.Or(cmp.Compare(score(a), score(b)), a-b) })
			keep := len(members)
			if s.Halving && rung < rungs(s)-1 {
				keep = max(1, n/[]int{3, 9}[rung])
			}
			for place, i := range members {
				o.states[i] = Finished
				if failed[i] {
					o.states[i] = Failed
				} else if place >= keep {
					o.states[i] = Out
				}
			}
			members = members[:keep]
		}
	}
	best := -1
	for i, at := range finiteAt {
		if at < 0 {
			continue
		}
		better := best < 0 || at > finiteAt[best]
		if !better && at == finiteAt[best] {
			x, y := fates[i].values[at], fates[best].values[at]
			better = lower && x < y || !lower && x > y
		}
		if better {
			best = i
		}
	}
	o.best, o.won = best+1, best >= 0 && finiteAt[best] == rungs(s)-1
	return o
}
