package rundir_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// What no run wrote is refused by its name, and stays.
func TestForeignFiles(t *testing.T) {
	const line, report = "{\"step\":1,\"epoch\":0,\"loss\":5}\n", "{\n  \"steps\": 3,\n  \"epochs\": 0\n}\n"
	run := func(dir string) { save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32}) }
	config := func(dir string) { put(t, dir, rundir.ConfigName, string(configText(t))) }
	for _, c := range []struct {
		name, file, text string
		beside           func(dir string)
		mode             rundir.Mode
		refused          bool
	}{
		{"metrics alone", rundir.MetricsName, line, nil, rundir.Begin, true},
		{"a report alone", rundir.ReportName, report, nil, rundir.Begin, true},
		{"metrics alone, begun anew", rundir.MetricsName, line, nil, rundir.Fresh, true},
		{"blank metrics", rundir.MetricsName, "\n", nil, rundir.Begin, false},
		{"a run's metrics", rundir.MetricsName, line, run, rundir.Resume, false},
		{"a run's metrics after damage", rundir.MetricsName, "\x00\x00garbage\n" + line, run, rundir.Resume, false},
		{"a run's report", rundir.ReportName, report, run, rundir.Resume, false},
		{"metrics whose checkpoints are gone", rundir.MetricsName, line, config, rundir.Begin, false},
		{"other metrics beside a run", rundir.MetricsName, "my own words\n", run, rundir.Begin, true},
		{"other metrics beside a run, resumed", rundir.MetricsName, "my own words\n", run, rundir.Resume, false},
		{"other checkpoints", rundir.CheckpointsName, "my own words\n", nil, rundir.Begin, true},
		{"other checkpoints, resumed", rundir.CheckpointsName, "my own words\n", nil, rundir.Resume, true},
		{"other checkpoints, begun anew", rundir.CheckpointsName, "my own words\n", config, rundir.Fresh, true},
		{"other metrics beside a config", rundir.MetricsName, "my own words\n", config, rundir.Begin, true},
		{"another report beside a run", rundir.ReportName, "{}", run, rundir.Resume, true},
		{"another report beside a run, begun anew", rundir.ReportName, "{}", run, rundir.Fresh, false},
	} {
		dir := t.TempDir()
		if c.beside != nil {
			c.beside(dir)
		}
		put(t, dir, c.file, c.text)
		before := files(t, dir)
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: c.mode})
		if c.refused != errors.Is(err, rundir.ErrFolder) || c.refused != (err != nil) {
			t.Errorf("%s: got %v", c.name, err)
		}
		if c.refused && (!strings.Contains(err.Error(), filepath.Join(dir, c.file)) || !maps.Equal(files(t, dir), before)) {
			t.Errorf("%s: files have changed, or the error names another: %v", c.name, err)
		}
		if f != nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// No mode writes through a link, wherever it leads.
func TestLinksInTheFolder(t *testing.T) {
	for _, name := range []string{rundir.CheckpointsName, rundir.ConfigName, rundir.MetricsName, rundir.ReportName} {
		for _, mode := range []rundir.Mode{rundir.Begin, rundir.Resume, rundir.Fresh} {
			dir, outside := t.TempDir(), t.TempDir()
			save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
			put(t, outside, "mine", "my own words\n")
			before := files(t, outside)
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(outside, "mine"), path); err != nil {
				t.Skip(err)
			}
			_, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: mode})
			if !errors.Is(err, rundir.ErrFolder) || !strings.Contains(err.Error(), path+" is a link") {
				t.Errorf("%s, mode %d: got %v", name, mode, err)
			}
			if !maps.Equal(files(t, outside), before) {
				t.Errorf("%s, mode %d: %q has changed", name, mode, before)
			}
		}
	}
}

// A file that waits to take the place of another is not written through a link.
func TestLinkOfANewFile(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "mine", "my own words\n")
	if err := os.Symlink(filepath.Join(outside, "mine"), filepath.Join(dir, rundir.ConfigName+".berth-new")); err != nil {
		t.Skip(err)
	}
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Start(t.Context(), configText(t), rundir.Standing{})
	if err := errors.Join(err, f.Close()); err != nil || files(t, outside)["mine"] != "my own words\n" {
		t.Errorf("%v, %q", err, files(t, outside))
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A run's files whose words no run wrote are kept beside it: when it begins anew, and when
// its config changes. A config that says the same in a user's words stays.
func TestForeignWordsAreKept(t *testing.T) {
	dir := t.TempDir()
	start := func(mode rundir.Mode, config []byte) {
		t.Helper()
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Start(t.Context(), config, rundir.Standing{Step: 3})
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name, want string) {
		t.Helper()
		if got := files(t, dir)[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	mine := "# my own words\n" + string(configText(t))
	put(t, dir, rundir.ConfigName, mine)
	start(rundir.Resume, configText(t))
	has(rundir.ConfigName, mine)
	start(rundir.Resume, configText(t, "train.epochs=4"))
	has(rundir.ConfigName, string(configText(t, "train.epochs=4")))
	has(rundir.ConfigName+".kept-1", mine)
	if os.Geteuid() != 0 { // whom no mode keeps from reading
		put(t, dir, rundir.ConfigName, "hidden")
		if err := os.Chmod(filepath.Join(dir, rundir.ConfigName), 0); err != nil {
			t.Fatal(err)
		}
		start(rundir.Resume, configText(t))
		for _, name := range []string{rundir.ConfigName, rundir.ConfigName + ".kept-2"} { // the new file has the mode of the old one
			if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		has(rundir.ConfigName+".kept-2", "hidden")
	}
	put(t, dir, rundir.ReportName, "my report")
	put(t, dir, rundir.TokenizerName, "my tokenizer")
	start(rundir.Fresh, configText(t))
	has(rundir.ReportName, "")
	has(rundir.ReportName+".kept-1", "my report")
	has(rundir.TokenizerName, "")
	has(rundir.TokenizerName+".kept-1", "my tokenizer")
}

// Names that are like those of a run's files stay.
func TestNamesLikeARuns(t *testing.T) {
	dir := t.TempDir()
	names := []string{rundir.ConfigName + ".new", rundir.MetricsName + ".new", rundir.ReportName + ".new", rundir.CheckpointsName + ".pid"}
	for _, name := range names {
		put(t, dir, name, "my own words\n")
	}
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Start(t.Context(), configText(t), rundir.Standing{})
	if err := errors.Join(err, f.SetReport([]byte("{}")), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got := files(t, dir)[name]; got != "my own words\n" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

func TestRuns(t *testing.T) {
	parent := t.TempDir()
	for _, name := range []string{"b", "a", "notes"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(parent, "a"), runstate.Progress{})
	save(t, filepath.Join(parent, "b"), runstate.Progress{})
	put(t, filepath.Join(parent, "notes"), "config.yaml", "my: words\n")
	put(t, filepath.Join(parent, "notes"), "metrics.jsonl", "my words\n")
	put(t, parent, "checkpoints.db", "")
	dirs, err := rundir.Runs(parent)
	if want := []string{filepath.Join(parent, "a"), filepath.Join(parent, "b")}; err != nil || !slices.Equal(dirs, want) {
		t.Errorf("got %q, %v", dirs, err)
	}
}

// Remove deletes what a run has written, and nothing else.
func TestRemove(t *testing.T) {
	run := func() string {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		save(t, dir, runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32})
		put(t, dir, rundir.ConfigName, string(configText(t)))
		put(t, dir, rundir.MetricsName, boundaryLine(0))
		put(t, dir, "events.out.tfevents.1700000000.berth", "")
		put(t, dir, rundir.LogName, rundir.LogHead+"8 (my)\nepoch 1/2\n")
		return dir
	}
	dir := run()
	if left, err := rundir.Remove(dir); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
	dir = run()
	put(t, dir, "notes.txt", "my own words\n")
	put(t, dir, rundir.ReportName, "my own report\n")
	put(t, dir, rundir.OlderLogName, "my own log\n")
	left, err := rundir.Remove(dir)
	if want := []string{rundir.OlderLogName, "notes.txt", rundir.ReportName}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %q, %v", left, err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "none"), filepath.Join(dir, "notes.txt")} {
		if _, err := rundir.Remove(d); !errors.Is(err, rundir.ErrNoRun) {
			t.Errorf("%s: %v", d, err)
		}
	}
	if len(files(t, dir)) != 3 {
		t.Error("a folder without a run has changed")
	}
}
