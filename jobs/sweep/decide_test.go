package sweep

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/configs"
)

// TestOutcome: in whatever order trials begin, reach their rungs and are suspended, and whenever more are added, the sweep ends as
// one that goes round by round, and no trial trains further than there.
func TestOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnSweep(t)
		s.KeepGoing = true
		var fates []fate
		for range s.Total() {
			fates = append(fates, drawnFate(t, s))
		}
		want := reference(s, fates)
		first := *s
		if rapid.Bool().Draw(t, "added later") {
			first.Trials = s.Trials[:1]
		}
		m := newSimulation(&first, fates)
		m.more = s.Trials[len(first.Trials):]
		m.run(t, rapid.IntRange(1, 10).Draw(t, "at once"), func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") })
		got := outcome{states: m.decision.States, best: m.decision.Best, won: m.decision.Err == nil}
		for _, trial := range m.trials {
			got.reached = append(got.reached, len(trial.Values))
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		checkSettings(t, m)
		checkKept(t, m)
	})
}

// checkSettings: those that trials began with are those that follow from the results alone, in the end.
func checkSettings(t *rapid.T, m *simulation) {
	bare := slices.Clone(m.trials)
	for i := range bare {
		bare[i].Settings = nil
	}
	want := Settings(m.sweep, bare)
	seen := map[string]int{}
	for i, trial := range m.trials {
		if !reflect.DeepEqual(trial.Settings, want[i]) {
			t.Fatalf("trial %d began with %v, and now has %v", i+1, trial.Settings, want[i])
		}
		text := fmt.Sprint(trial.Settings)
		if seen[text] != 0 {
			t.Fatalf("trials %d and %d both have %s", seen[text], i+1, text)
		}
		seen[text] = i + 1
	}
}

// checkKept: in the end the best trials have their checkpoints, and no others.
func checkKept(t *rapid.T, m *simulation) {
	kept := len(m.trials) - len(m.decision.Delete)
	if m.decision.Err == nil && kept != min(m.sweep.Keep, len(m.trials)) {
		t.Fatalf("%d trials keep their checkpoints, not %d", kept, m.sweep.Keep)
	}
	if best := m.decision.Best; best > 0 && slices.Contains(m.decision.Delete, best) {
		t.Fatalf("the checkpoint of the best trial %d is not kept", best)
	}
}

// TestCheckpoints: no more trials have checkpoints than is foretold.
func TestCheckpoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawnSweep(t)
		var fates []fate
		for range s.Total() {
			f := drawnFate(t, s)
			f.fails = -1
			fates = append(fates, f)
		}
		atOnce := rapid.IntRange(1, 4).Draw(t, "at once")
		most := Checkpoints(s, atOnce)
		m := newSimulation(s, fates)
		for !m.decision.Over {
			// Trials that have begun go before those that have not.
			slices.SortStableFunc(m.decision.Ready, func(a, b Ready) int {
				if x, y := m.begun[a.Trial-1], m.begun[b.Trial-1]; x != y && y {
					return 1
				} else if x != y {
					return -1
				}
				return 0
			})
			if running := m.running(); len(running) < atOnce && len(m.decision.Ready) > 0 {
				m.begin(m.decision.Ready[0])
			} else {
				m.reach(running[rapid.IntRange(0, len(running)-1).Draw(t, "who")])
			}
			m.decision = Decide(s, m.trials)
			have := 0
			for i, begun := range m.begun {
				if begun && !slices.Contains(m.decision.Delete, i+1) {
					have++
				}
			}
			if have > most {
				t.Fatalf("%d trials have checkpoints, and %d were foretold", have, most)
			}
		}
	})
}

// simple is a sweep of n trials.
func simple(n int, change ...func(*configs.Sweep)) *configs.Sweep {
	s := &configs.Sweep{
		Vary:   []configs.Dimension{{Key: "optimizer.lr", Lo: 0, Hi: 1}},
		Trials: []int{n}, Strategy: configs.StrategyHalton, Metric: "val_loss", Seed: 1, Keep: 3,
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func halved(s *configs.Sweep)     { s.Halving = true }
func tpe(s *configs.Sweep)        { s.Strategy = configs.StrategyTPE }
func higher(s *configs.Sweep)     { s.Metric = "val_accuracy" }
func keepsGoing(s *configs.Sweep) { s.KeepGoing = true }

func at(values ...float64) Trial { return Trial{Values: values} }

// TestAsSoonAsCertain has a case for each rule: the states, and who may train up to which rung.
func TestAsSoonAsCertain(t *testing.T) {
	bad := Trial{Err: errTraining}
	cases := []struct {
		name   string
		sweep  *configs.Sweep
		trials []Trial
		states string
		ready  string
	}{
		{"all begin", simple(3, halved), nil, "w w w", "1:0 2:0 3:0"},
		{"one of three goes on; while one is missing, the better is not certain, and the worse is out", simple(3, halved), []Trial{at(2), at(1)}, "o w w", "3:0"},
		{"now it is", simple(3, halved), []Trial{at(2), at(1), at(3)}, "o w o", "2:1"},
		{"with two places, the better of all but one is certain", simple(6, halved), []Trial{at(2), at(1), at(3), at(3), at(3)}, "w w o o o w", "2:1 6:0"},
		{"a missing trial that fails makes it certain", simple(3, halved), []Trial{at(2), at(1), bad}, "o w x", "2:1"},
		{"equal ones go by number", simple(3, halved), []Trial{at(1), at(1), at(1)}, "w o o", "1:1"},
		{"a higher value is better where the metric says so", simple(3, halved, higher), []Trial{at(1), at(2), at(1)}, "o w o", "2:1"},
		{"those that were added later are halved among themselves", simple(3, halved, func(s *configs.Sweep) { s.Trials = []int{3, 3} }),
			[]Trial{at(1), at(2), at(3), at(9), at(8), at(7)}, "w o o o o w", "1:1 6:1"},
		{"a higher rung goes first", simple(6, halved), []Trial{at(3), at(3), at(3), at(1), at(9)}, "w o o w o w", "4:1 6:0"},
		{"who runs is not ready", simple(2), []Trial{{Running: true}}, "r w", "2:0"},
		{"who ended has its last value to the end", simple(3, halved), []Trial{{Values: []float64{1}, Ended: true}, at(2), at(3)}, "f o o", ""},
		{"a trial that failed on its way keeps its place, and the next one does not get it", simple(3, halved),
			[]Trial{{Values: []float64{1}, Err: errTraining}, at(2), at(3)}, "x o o", ""},
		{"tpe: the first trials need no results", simple(30, tpe), nil, strings.TrimSpace(strings.Repeat("w ", 30)), "1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0"},
	}
	for _, c := range cases {
		d := Decide(c.sweep, c.trials)
		var states, ready []string
		for _, s := range d.States {
			states = append(states, map[State]string{Waiting: "w", Running: "r", Finished: "f", Out: "o", Failed: "x"}[s])
		}
		for _, r := range d.Ready {
			ready = append(ready, fmt.Sprintf("%d:%d", r.Trial, r.Rung))
		}
		if got := strings.Join(states, " "); got != c.states {
			t.Errorf("%s: states %s, want %s", c.name, got, c.states)
		}
		if got := strings.Join(ready, " "); got != c.ready {
			t.Errorf("%s: ready %s, want %s", c.name, got, c.ready)
		}
	}
}

// TestWaitsForResults: a trial of tpe waits for those up to eight before it, not for others.
func TestWaitsForResults(t *testing.T) {
	s := simple(30, tpe)
	trials := make([]Trial, 30)
	for i := range trials {
		trials[i].Values = []float64{float64(i)}
	}
	trials[4].Values = nil // trial 5
	if got := len(Settings(s, trials)); got != 12 {
		t.Errorf("without trial 5 there are settings of %d trials, not 12", got)
	}
	trials[4].Err = errTraining
	if got := len(Settings(s, trials)); got != 30 {
		t.Errorf("once trial 5 has failed there are settings of %d trials, not 30", got)
	}
}

// TestFirstTrialsFail: three failures end a sweep, if they are those of the first three trials.
func TestFirstTrialsFail(t *testing.T) {
	bad, worse := Trial{Err: errTraining}, Trial{Err: errors.New("the data is gone")}
	cases := []struct {
		name   string
		sweep  *configs.Sweep
		trials []Trial
		over   bool
		err    string
	}{
		{"two are not enough", simple(9), []Trial{bad, bad}, false, ""},
		{"three others are", simple(9), []Trial{at(1), bad, bad, bad}, false, ""},
		{"three", simple(9), []Trial{bad, bad, bad, at(1)}, true, "the first 3 trials failed, and the others are not tried (--keep-going tries them): the loss is not finite"},
		{"of which one differs", simple(9), []Trial{bad, worse, bad}, true, "the first 3 trials failed, and the others are not tried (--keep-going tries them): the loss is not finite\nthe data is gone"},
		{"but not with keep_going", simple(9, keepsGoing), []Trial{bad, bad, bad}, false, ""},
		{"all of few", simple(3), []Trial{bad, bad, bad}, true, "no trial has a finite val_loss at its end, and 3 of 3 failed: the loss is not finite"},
		{"all of them, with keep_going", simple(4, keepsGoing), []Trial{bad, bad, bad, bad}, true, "no trial has a finite val_loss at its end, and 4 of 4 failed: the loss is not finite"},
	}
	for _, c := range cases {
		d := Decide(c.sweep, c.trials)
		text := ""
		if d.Err != nil {
			text = d.Err.Error()
			if !errors.Is(d.Err, errTraining) {
				t.Errorf("%s: %v is not the error of a trial", c.name, d.Err)
			}
		}
		if d.Over != c.over || text != c.err || d.Over && d.Ready != nil {
			t.Errorf("%s: over %v, %q", c.name, d.Over, text)
		}
	}
}

// TestTriedAgain: a failed trial that is tried again can win, and the sweep is then as if it had not failed.
func TestTriedAgain(t *testing.T) {
	s := simple(3, halved)
	trials := []Trial{{Err: errTraining}, at(2, 2, 2), at(3)}
	if d := Decide(s, trials); !d.Over || d.Best != 2 || d.Err != nil {
		t.Fatalf("got %+v", d)
	}
	trials[0] = Trial{}
	if d := Decide(s, trials); d.Over || len(d.Ready) != 1 || d.Ready[0].Trial != 1 {
		t.Fatalf("got %+v", d)
	}
	trials[0] = at(1, 1, 1)
	if d := Decide(s, trials); !d.Over || d.Best != 1 || d.States[1] != Out {
		t.Fatalf("got %+v", d)
	}
}

// BenchmarkDecide is a decision in a long sweep that is halfway.
func BenchmarkDecide(b *testing.B) {
	for _, strategy := range []string{configs.StrategyHalton, configs.StrategyTPE} {
		b.Run(strategy, func(b *testing.B) {
			s := simple(1000, halved)
			trials := make([]Trial, 500)
			for i, settings := range Settings(s, nil)[:500] {
				trials[i] = Trial{Settings: settings, Values: []float64{float64(i * 7 % 500)}}
			}
			s.Strategy = strategy
			for b.Loop() {
				Decide(s, trials)
			}
		})
	}
}

// TestDelete: the checkpoints that stay are those of the best, and of failed trials until the sweep is over.
func TestDelete(t *testing.T) {
	s := simple(6, func(s *configs.Sweep) { s.Keep = 2 })
	trials := []Trial{at(5), {Err: errTraining}, at(3), {Values: nil, Running: true}}
	for _, c := range []struct {
		change func()
		want   []int
	}{
		{func() {}, nil},
		{func() { trials[3] = at(4) }, []int{1}},
		{func() { trials = append(trials, at(6), Trial{Running: true}) }, []int{1, 5}},
		{func() { trials[5] = at(1) }, []int{1, 2, 4, 5}},
		{func() { trials[1] = Trial{} }, []int{1, 4, 5}},
	} {
		c.change()
		if d := Decide(s, trials); !slices.Equal(d.Delete, c.want) {
			t.Errorf("%v: got %v, want %v", d.States, d.Delete, c.want)
		}
	}
	s.Trials, s.KeepGoing = []int{4}, false
	failed := []Trial{{Err: errTraining}, {Err: errTraining}, {Err: errTraining}, at(1)}
	if d := Decide(s, failed); d.Delete != nil {
		t.Errorf("a sweep that ended for its failures lets %v be deleted, which could go on", d.Delete)
	}
}
