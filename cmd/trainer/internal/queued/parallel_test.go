package queued

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/svg/svgtest"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/sweep"
)

// standingWith is that of a sweep over a rate and a list, whose trials have these values; nil: none.
func standingWith(t *testing.T, best int, values ...*float64) *jobs.Standing {
	t.Helper()
	s, err := configs.ParseSweep("sweep", fmt.Appendf(nil, "sweep: {config: digits, trials: %d, vary: {optimizer.lr: 'log:1e-4..1e-1', model.hidden: [[64], [128, 64]]}}", len(values)))
	if err != nil {
		t.Fatal(err)
	}
	st := &jobs.Standing{Sweep: s, Trials: make([]*jobs.View, len(values)), Decision: sweep.Decision{Best: best}}
	for i, v := range values {
		trial := &queue.Trial{Number: i + 1, Settings: []queue.Setting{{Key: "optimizer.lr", Value: fmt.Sprint(0.001 * float64(i+1))}, {Key: "model.hidden", Value: "[64]"}}}
		j := queue.Job{ID: i + 2, State: queue.Finished, Trial: trial}
		if v != nil {
			trial.Values = []*float64{v}
		} else {
			j.State = queue.Failed
		}
		st.Trials[i] = &jobs.View{Job: j}
	}
	return st
}

// TestParallel: each trial that has begun is a line over all axes, and one without a value ends before the metric's.
func TestParallel(t *testing.T) {
	one, two, large := 1.0, 2.0, 1e9
	st := standingWith(t, 1, &one, &two, nil, &large)
	st.Trials[1].Trial.Out = true
	st.Trials = append(st.Trials, nil) // has not begun
	text := parallel(st, "sweep 1").String()
	svgtest.Check(t, text)
	for _, want := range []string{
		"trial 1, finished: val_loss 1", "trial 2, out: val_loss 2", "trial 3, failed; optimizer.lr", "trial 4, finished: val_loss 1e", // hints
		">trial 1, the best: val_loss 1", ">out<", ">failed, or no finite value<", ">others: the better, the darker<", // legend
		">optimizer.lr<", ">model.hidden<", ">val_loss, lower is better<", ">[128, 64]<", // axes
	} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, ", 64", ",64")) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	corners := func(trial int) int {
		before, _, _ := strings.Cut(text, fmt.Sprintf("<title>trial %d,", trial))
		line := before[strings.LastIndex(before, `<path d="`):]
		return strings.Count(line, "L") + strings.Count(line, "M")
	}
	for trial, want := range map[int]int{1: 3, 2: 3, 3: 2, 4: 3} {
		if got := corners(trial); got != want {
			t.Errorf("trial %d is on %d axes, want %d", trial, got, want)
		}
	}
	if a, b := strings.Index(text, "trial 4, fin"), strings.Index(text, "<title>trial 1, fin"); a > b {
		t.Error("the best trial is not drawn last")
	}
}

// TestParallelOfLittle: a sweep without values, and one whose values are equal, are drawn.
func TestParallelOfLittle(t *testing.T) {
	one := 1.0
	svgtest.Check(t, parallel(standingWith(t, 0, nil, nil), "sweep 1").String())
	svgtest.Check(t, parallel(standingWith(t, 1, &one, &one), "sweep 1").String())
}

// Shares are percentages, and values are as short as they are given.
func TestTrialsInWords(t *testing.T) {
	x := 0.96388
	if a, b, c := metric("val_accuracy", &x), metric("val_loss", &x), metric("val_loss", nil); a != "96.39%" || b != "0.9639" || c != "" {
		t.Errorf("%q, %q and %q", a, b, c)
	}
	for v, want := range map[string]string{"0.01": "0.01", "0.0031622776601683794": "0.003162", "1e-05": "1e-05", "64": "64", "[64, 32]": "[64,32]", "adam": "adam"} {
		if got := shortValue(v); got != want {
			t.Errorf("%s: %q, want %q", v, got, want)
		}
	}
}
