package rundir_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

func TestCheckOutput(t *testing.T) {
	dir, run := t.TempDir(), t.TempDir()
	save(t, run, runstate.Progress{Step: 3, Index: 3 * 32})
	data := filepath.Join(dir, "data.csv")
	if err := os.WriteFile(data, []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	texts, own := filepath.Join(dir, "texts"), filepath.Join(dir, "own")
	text := filepath.Join(texts, "below", "a.txt")
	if err := os.MkdirAll(filepath.Dir(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(data, link); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "new.csv"):         "",
		filepath.Join(run, "new.csv"):         "",
		filepath.Join(dir, "none", "new.csv"): "is no folder; make it first",
		dir:                                   "name a file in it",
		data:                                  "the command uses ",
		link:                                  "the command uses ",
		filepath.Join(run, "config.yaml"):     "belongs to the run",
		filepath.Join(run, "checkpoints.db"):  "belongs to the run",
		filepath.Join(dir, "checkpoints.db"):  "",
		text:                                  "the command uses ",
		filepath.Join(texts, "new.json"):      "",
		own:                                   "it is the run folder",
		filepath.Join(own, "checkpoints.db"):  "is no folder; make it first",
	} {
		err := rundir.CheckOutput(path, own, "", data, texts)
		if want == "" && err != nil || want != "" && (!errors.Is(err, rundir.ErrOutput) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// On an error the file stays as it was, and nothing is left beside it.
func TestWriteOutput(t *testing.T) {
	dir := t.TempDir()
	path, failure := filepath.Join(dir, "out"), errors.New("no more")
	for _, c := range []struct {
		text string
		err  error
		want string
	}{{"one", nil, "one"}, {"two", failure, "one"}, {"three", nil, "three"}} {
		err := rundir.WriteOutput(path, func(w io.Writer) error {
			if _, err := io.WriteString(w, c.text); err != nil {
				return err
			}
			return c.err
		})
		if got := files(t, dir); !errors.Is(err, c.err) || len(got) != 1 || got["out"] != c.want {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
}

// An error names the file that was asked for, not the one that was to take its
// place; CheckOutput finds it before the work begins.
func TestOutputThatCannotBeMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 300)) // the longest names have 255 bytes
	err := rundir.WriteOutput(path, func(io.Writer) error { return nil })
	if err == nil || strings.Contains(err.Error(), ".berth-") || !strings.Contains(err.Error(), path+" cannot be written") {
		t.Errorf("got %v", err)
	}
	err = rundir.CheckOutput(path, "")
	if !errors.Is(err, rundir.ErrOutput) || strings.Contains(err.Error(), ".berth-") || !strings.Contains(err.Error(), "; name another file") {
		t.Errorf("got %v", err)
	}
}

// A name of any length that the file system takes can be written to.
func TestOutputWithALongName(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	if err := rundir.CheckOutput(path, ""); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"one", "two"} {
		err := rundir.WriteOutput(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if got, e := os.ReadFile(path); err != nil || e != nil || string(got) != text {
			t.Errorf("%q, %v, %v", got, err, e)
		}
	}
}

// An output through links that lead to no file yet makes that file, and the
// links stay.
func TestOutputThroughDanglingLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	for link, to := range map[string]string{first: "second", second: filepath.Join("other", "out")} {
		if err := os.Symlink(to, link); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	if err := rundir.CheckOutput(first, ""); err != nil {
		t.Fatal(err)
	}
	err := rundir.WriteOutput(first, func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "other", "out")); string(text) != "text" {
		t.Error(string(text), err)
	}
	if to, err := os.Readlink(first); to != "second" {
		t.Error(to, err)
	}
}
