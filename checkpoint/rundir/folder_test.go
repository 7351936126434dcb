package rundir_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// A folder is opened in the mode that fits its contents, or left as it is.
func TestOpenModes(t *testing.T) {
	empty := func(string) {}
	run := func(dir string) { save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32}) }
	foreign := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, rundir.ConfigName), []byte("# my own words\ndata: digits\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		fill func(dir string)
		mode rundir.Mode
		want error
	}{
		{"begin in an empty folder", empty, rundir.Begin, nil},
		{"begin over a run", run, rundir.Begin, rundir.ErrHasCheckpoint},
		{"begin over a config of one's own", foreign, rundir.Begin, rundir.ErrFolder},
		{"resume nothing", empty, rundir.Resume, rundir.ErrNoCheckpoint},
		{"resume a run", run, rundir.Resume, nil},
		{"begin anew over a run", run, rundir.Fresh, nil},
		{"begin anew over a config of one's own", foreign, rundir.Fresh, rundir.ErrFolder},
	} {
		dir := t.TempDir()
		c.fill(dir)
		before := files(t, dir)
		if c.mode == rundir.Begin {
			if err := rundir.CheckBegin(dir); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("%s: checked: got %v, want %v", c.name, err, c.want)
			}
		}
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: c.mode})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if err == nil {
			err = f.Close()
		} else if !maps.Equal(files(t, dir), before) {
			t.Errorf("%s: files have changed", c.name)
		}
		if c.want == nil && err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A fresh run deletes an earlier one's files when it starts, and not before.
func TestFreshDeletesAtTheStart(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	if err := os.WriteFile(filepath.Join(dir, rundir.ReportName), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Fresh})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Report() == nil {
		t.Error("the report is gone before the run starts")
	}
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{}); err != nil {
		t.Fatal(err)
	}
	list, skipped, err := f.DB.List()
	if err != nil || len(list)+len(skipped) > 0 || f.Report() != nil {
		t.Errorf("%d checkpoints, report %q, %v", len(list), f.Report(), err)
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.MetricsName)); err != nil {
		t.Error(err)
	}
}

// Damage that hides a checkpoint is repaired before a run goes on, which is
// noted. Where no checkpoint is whole, the error says what can be done.
func TestResumeRepairs(t *testing.T) {
	dir := t.TempDir()
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	save(t, dir, runstate.Progress{Step: 4, Index: 4 * 32})
	damage(t, dir, `{"Step":4,`)
	before := files(t, dir)
	var said notes
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume, Note: said.add})
	if err != nil {
		t.Fatal(err)
	}
	snap, _, err := f.Newest(t.Context())
	if err := errors.Join(err, f.Close()); err != nil || snap.Manifest.Step != 3 || len(said) == 0 || !strings.Contains(said[len(said)-1], "was damaged") {
		t.Errorf("step %d, notes %q, %v", snap.Manifest.Step, said, err)
	}
	if now := files(t, dir); !maps.Equal(now, before) {
		t.Error("a run that did not start has changed its folder")
	}
	damage(t, dir, `{"Step":3,`)
	b, err := os.ReadFile(rundir.CheckpointPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	clear(b[:2*os.Getpagesize()]) // what leads to the rest
	if err := os.WriteFile(rundir.CheckpointPath(dir), b, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume})
	if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "trainer checkpoints repair") {
		t.Errorf("got %v", err)
	}
}

// A run that does not start leaves nothing; what others have put there stays.
func TestFolderOfARunThatDoesNotStart(t *testing.T) {
	root := t.TempDir()
	open := func(mode rundir.Mode) {
		t.Helper()
		f, err := rundir.Open(t.Context(), filepath.Join(root, "runs", "a"), rundir.OpenOptions{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		var have []string
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if name, _ := filepath.Rel(root, path); name != "." {
				have = append(have, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("left are %q, want %q, %v", have, want, err)
		}
	}
	open(rundir.Begin)
	left()
	open(rundir.Fresh)
	left()
	if err := os.MkdirAll(filepath.Join(root, "runs", "a"), 0o777); err != nil {
		t.Fatal(err)
	}
	open(rundir.Begin)
	left("runs", "runs/a")
	if err := os.WriteFile(filepath.Join(root, "runs", "a", "checkpoints.db"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	open(rundir.Begin)
	left("runs", "runs/a", "runs/a/checkpoints.db")
}

// A path that cannot be a run's folder is refused in one sentence, and nothing is made.
func TestPathsThatCannotBeAFolder(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Symlink("nowhere", filepath.Join(root, "dangling")), os.Symlink("circle", filepath.Join(root, "circle"))); err != nil {
		t.Skip(err)
	}
	long := strings.Repeat("n", 200)
	for path, want := range map[string]string{
		filepath.Join(slices.Repeat([]string{long}, 40)...): "too long",
		filepath.Join("below", long+long):                   "too long",
		"dangling":                                          "dangling is a link to nowhere, which leads nowhere: make that folder, or name another",
		filepath.Join("dangling", "below"):                  "dangling is a link to nowhere, which leads nowhere",
		filepath.Join("circle", "below"):                    "circle is a link to circle, which leads nowhere",
	} {
		_, err := rundir.Open(t.Context(), filepath.Join(root, path), rundir.OpenOptions{})
		if !errors.Is(err, rundir.ErrFolder) || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%.40s: %v", path, err)
		}
		list, err := os.ReadDir(root)
		if err != nil || len(list) != 2 {
			t.Fatalf("%.40s: %d names are left, %v", path, len(list), err)
		}
	}
}
