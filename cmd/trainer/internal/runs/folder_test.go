package runs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

func TestNumber(t *testing.T) {
	for dir, want := range map[string]int{
		"digits": 1, "digits-2": 2, "digits-10": 10,
		"digits-1": 0, "digits-02": 0, "digits-x": 0, "digits-": 0, "digits2": 0, "digits--2": 0, "digit": 0, "digits-2-2": 0,
	} {
		if n, ours := number(dir, "digits"); ours != (want > 0) || ours && n != want {
			t.Errorf("%s: %d, %v, want %d", dir, n, ours, want)
		}
	}
}

// TestChooseFolderTaken: what stands in the way of a run folder is stepped
// over; where no folder can be made at all, the choice still ends.
func TestChooseFolderTaken(t *testing.T) {
	cases := []struct {
		name string
		make func() error
		want Folder
	}{
		{"nothing", func() error { return nil }, Folder{Dir: "runs/digits"}},
		{"an empty folder", func() error { return os.MkdirAll("runs/digits", 0o777) }, Folder{Dir: "runs/digits"}},
		{"runs is a file", func() error { return os.WriteFile("runs", nil, 0o666) }, Folder{Dir: "runs/digits"}},
		{"a file", func() error {
			return errors.Join(os.Mkdir("runs", 0o777), os.WriteFile("runs/digits", nil, 0o666))
		}, Folder{Dir: "runs/digits-2", Note: "runs/digits is taken: this run goes to runs/digits-2"}},
		{"a link to nowhere", func() error {
			return errors.Join(os.Mkdir("runs", 0o777), os.Symlink("nowhere", "runs/digits"))
		}, Folder{Dir: "runs/digits-2", Note: "runs/digits is taken: this run goes to runs/digits-2"}},
		{"a report without checkpoints", func() error {
			return errors.Join(os.MkdirAll("runs/digits", 0o777), os.WriteFile("runs/digits/report.json", nil, 0o666))
		}, Folder{Dir: "runs/digits-2", Note: "runs/digits is taken: this run goes to runs/digits-2"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := c.make(); err != nil {
				t.Skip(err) // a system without symbolic links
			}
			got, err := ChooseFolder("", "digits", Begin, unreserved)
			got.Dir, got.Note = filepath.ToSlash(got.Dir), filepath.ToSlash(got.Note)
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestChooseFolderDamaged: a damaged newest run is not announced as begun anew.
func TestChooseFolderDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.MkdirAll("runs/digits-2", 0o777), os.WriteFile("runs/digits-2/checkpoints.db", []byte("garbage"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for m, note := range map[Mode]string{
		Begin: "", Fresh: "beginning anew in runs/digits-2, the newest run", Resume: "going on with runs/digits-2, the newest run",
	} {
		f, err := ChooseFolder("", "digits", m, unreserved)
		if filepath.ToSlash(f.Dir) != "runs/digits-2" || filepath.ToSlash(f.Note) != note || err != nil {
			t.Errorf("mode %d: %+v, %v", m, f, err)
		}
	}
}

func unreserved(string) int { return 0 }

// TestChooseFolderReserved: no run begins in the folder of a queued job. It may go on there.
func TestChooseFolderReserved(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("runs/digits", 0o777); err != nil {
		t.Fatal(err)
	}
	job := func(dir string) int {
		if filepath.ToSlash(dir) == "runs/digits" {
			return 8
		}
		return 0
	}
	for _, m := range []Mode{Begin, Fresh, Auto} {
		if f, err := ChooseFolder("", "digits", m, job); err != nil || filepath.ToSlash(f.Dir) != "runs/digits-2" {
			t.Errorf("mode %d: %+v, %v", m, f, err)
		}
		if _, err := ChooseFolder("runs/digits", "digits", m, job); err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.HasPrefix(err.Error(), "runs/digits is the run folder of job 8: ") {
			t.Errorf("mode %d, given: %v", m, err)
		}
	}
	if dir := filepath.ToSlash(NewFolder("digits", job)); dir != "runs/digits-2" {
		t.Errorf("a new folder: %s", dir)
	}
	if f, err := ChooseFolder("runs/digits", "digits", Resume, job); err != nil || !f.Resume {
		t.Errorf("to go on: %+v, %v", f, err)
	}
	if err := os.WriteFile("runs/digits/checkpoints.db", []byte("garbage"), 0o666); err != nil {
		t.Fatal(err)
	}
	for m, want := range map[Mode]string{Begin: "runs/digits-2", Fresh: "runs/digits-2", Resume: "runs/digits", Auto: "runs/digits"} {
		if f, err := ChooseFolder("", "digits", m, job); err != nil || filepath.ToSlash(f.Dir) != want {
			t.Errorf("mode %d, with a run: %+v, %v", m, f, err)
		}
	}
}
