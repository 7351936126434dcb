package rundir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// The lines of steps that a resumed run does again are dropped, and lines that
// are not whole. A last line that lacks its end alone gets one.
func TestMetricsUpToAStep(t *testing.T) {
	const (
		two   = `{"step":2,"epoch":0,"loss":5}` + "\n"
		end   = `{"epoch":0,"step":3,"train_loss":4}` + "\n"
		four  = `{"step":4,"epoch":0,"loss":3}` + "\n"
		added = `{"step":4,"epoch":0,"loss":2.5,"learning_rate":0.5}` + "\n"
	)
	long := strings.Repeat("x", 200_000)
	for name, c := range map[string]struct{ old, kept string }{
		"cut off":           {two + end + four + `{"step":5,"ep`, two + end},
		"damaged":           {"{\n" + two + "\x00\x00\n" + end + "null,\n", two + end},
		"a line too long":   {two + long + "\n" + end + long, two + end},
		"without an end":    {two + strings.TrimSuffix(end, "\n"), two + end},
		"later steps first": {four + two + end, two + end},
	} {
		dir := t.TempDir()
		save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
		path := filepath.Join(dir, rundir.MetricsName)
		if err := os.WriteFile(path, []byte(c.old), 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume})
		if err != nil {
			t.Fatal(err)
		}
		logged, err := f.Start(t.Context(), configText(t), rundir.Standing{Step: 3})
		if err != nil {
			t.Fatal(err)
		}
		if losses := f.Metrics.Losses(); !slices.Equal(losses, []float64{5}) || logged != 2 {
			t.Errorf("%s: losses %v up to step %d", name, losses, logged)
		}
		if err := f.Metrics.Write(runstate.Step{Step: 4, Loss: 2.5, LearningRate: 0.5}); err != nil {
			t.Fatal(err)
		}
		f.Metrics.Flush()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.kept+added {
			t.Errorf("%s: %v:\n%s\nwant\n%s", name, err, text, c.kept+added)
		}
	}
}

// Reading the metrics of a long run ends with its context.
func TestMetricsCancelled(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	if err := os.WriteFile(filepath.Join(dir, rundir.MetricsName), []byte(`{"step":2,"epoch":0,"loss":5}`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Start(ctx, configText(t), rundir.Standing{Step: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected context.Canceled", err)
	}
}

// What a resumed run finds damaged in the metrics is told, with the steps whose lines are
// gone for good, and the damaged file is kept.
func TestDamagedMetricsAreTold(t *testing.T) {
	line := func(step int) string { return fmt.Sprintf("{\"step\":%d,\"epoch\":0,\"loss\":1}\n", step) }
	lines := func(from, to int) (text string) {
		for step := from; step <= to; step += 2 {
			text += line(step)
		}
		return text
	}
	for name, c := range map[string]struct {
		text         string
		lines, again int
		lost         rundir.Lost
		says         string // "": nothing
		kept         bool   // the file as it was
	}{
		"whole":                          {lines(2, 20), 10, 16, rundir.Lost{}, "", false},
		"whole, of other distances":      {line(1) + line(2) + lines(8, 20), 9, 16, rundir.Lost{}, "", false},
		"a line of garbage":              {lines(2, 8) + "garbage\n" + lines(12, 20), 10, 16, rundir.Lost{Lines: 1, FirstStep: 10, LastStep: 10}, "lacks the line of step 10; the file as it was is ", true},
		"two, of an older checkpoint":    {lines(2, 8) + "\x00\x00\n\x00" + "\n" + lines(14, 20), 0, 16, rundir.Lost{Lines: 2, FirstStep: 10, LastStep: 12}, "lacks lines of steps 10 to 12; ", true},
		"cut":                            {lines(2, 8) + `{"st`, 10, 16, rundir.Lost{Lines: 4, FirstStep: 10, LastStep: 16}, "lacks lines of steps 10 to 16; ", true},
		"cut, but for steps to come":     {lines(2, 16) + `{"st`, 10, 16, rundir.Lost{}, "", false},
		"cut between lines":              {lines(2, 8), 10, 16, rundir.Lost{Lines: 4, FirstStep: 10, LastStep: 16}, "lacks lines of steps 10 to 16", false},
		"empty":                          {"", 10, 16, rundir.Lost{Lines: 8, FirstStep: 2, LastStep: 16}, "lacks lines of steps 2 to 16", false},
		"others' words":                  {"my own words\n", 10, 16, rundir.Lost{Lines: 8, FirstStep: 2, LastStep: 16}, "lacks lines of steps 2 to 16; ", true},
		"others' JSON":                   {"{\"step\":900,\"mine\":1}\n", 10, 16, rundir.Lost{Lines: 8, FirstStep: 2, LastStep: 16}, "lacks lines of steps 2 to 16; ", true},
		"others' JSON among a run's":     {lines(2, 20) + "{\"mine\":1}\nnull", 10, 16, rundir.Lost{}, "2 of its lines cannot be read", true},
		"garbage in place of an epoch's": {lines(2, 10) + "garbage\n" + lines(12, 20), 10, 16, rundir.Lost{}, "1 of its lines cannot be read", true},
	} {
		dir := t.TempDir()
		save(t, dir, runstate.Progress{Step: 20, Index: 20 * 32})
		put(t, dir, rundir.MetricsName, c.text)
		var said notes
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume, Warn: said.add})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Start(t.Context(), configText(t), rundir.Standing{Step: 20, Every: 2, Again: c.again, Lines: c.lines})
		if err != nil {
			t.Fatal(err)
		}
		if lost := f.Metrics.End(); c.lost == (rundir.Lost{}) && lost != nil || c.lost != (rundir.Lost{}) && (lost == nil || *lost != c.lost) {
			t.Errorf("%s: lost %+v, want %+v", name, lost, c.lost)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if (len(said) > 0) != (c.says != "") || len(said) > 0 && !strings.Contains(said[0], c.says) {
			t.Errorf("%s: said %q, want %q", name, said, c.says)
		}
		kept, want := files(t, dir)[rundir.MetricsName+".damaged-1"], ""
		if c.kept {
			want = c.text
		}
		if kept != want {
			t.Errorf("%s: kept %q", name, kept)
		}
	}
}
