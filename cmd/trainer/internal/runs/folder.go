package runs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
)

// parent is the folder of the run folders that nobody named: runs/NAME for a
// config's first run, runs/NAME-2 for its second.
const parent = "runs"

// Mode says how a training treats the run that its folder holds.
type Mode uint8

// The modes.
const (
	Begin  Mode = iota // there must be none
	Fresh              // it is deleted
	Resume             // it goes on; there must be one
	Auto               // it goes on; without one, a run begins
)

// Folder is where to train.
type Folder struct {
	Dir    string
	Resume bool   // the run in Dir goes on
	Note   string // why it is Dir, where a user may not expect it
}

// ChooseFolder chooses where to train a config: the folder given or, without
// one (""), a folder of that name's runs. There the newest run counts: it goes
// on or is deleted. A run that begins takes the first free folder, but only
// once the newest is finished.
func ChooseFolder(given, name string, m Mode) (Folder, error) {
	if given != "" {
		return Folder{Dir: given, Resume: goesOn(given, m)}, nil
	}
	newest, status, err := newestRun(name)
	switch {
	case newest == "" && m == Resume:
		return Folder{Dir: folder(name, 1), Resume: true}, nil // which says that there is no run
	case newest == "":
		return Folder{Dir: firstFree(name)}, nil
	case m == Begin && errors.Is(err, checkpoint.ErrHeld):
		return Folder{}, fmt.Errorf("%w; or begin another run elsewhere with --run DIR", err)
	case m == Begin && err == nil && status.State == rundir.Finished:
		free := firstFree(name)
		return Folder{Dir: free, Note: fmt.Sprintf("%s is finished: this run goes to %s", newest, free)}, nil
	case m == Begin && err == nil:
		return Folder{}, cli.Usagef("%s is unfinished%s: --resume goes on with it, --fresh deletes it and begins anew, --run DIR begins elsewhere", newest, at(status))
	}
	f := Folder{Dir: newest, Resume: m == Resume || m == Auto}
	if newest != folder(name, 1) {
		f.Note = map[bool]string{true: "going on with ", false: "beginning anew in "}[f.Resume] + newest + ", the newest run"
	}
	return f, nil
}

// goesOn reports whether a training in dir resumes. Damage is a reason to: that
// recovers what is whole.
func goesOn(dir string, m Mode) bool {
	if m != Auto {
		return m == Resume
	}
	status, err := rundir.StatusOf(dir)
	return err != nil || status.State != rundir.None
}

// at says how far an unfinished run is.
func at(s rundir.Status) string {
	if s.Total == 0 {
		return fmt.Sprintf(", at step %d", s.Step)
	}
	return fmt.Sprintf(", at step %d of %d", s.Step, s.Total)
}

// folder is the folder of a name's nth run, from 1.
func folder(name string, n int) string {
	if n == 1 {
		return filepath.Join(parent, name)
	}
	return filepath.Join(parent, fmt.Sprintf("%s-%d", name, n))
}

// firstFree is the first of a name's folders that holds no run.
func firstFree(name string) string {
	for n := 1; ; n++ {
		dir := folder(name, n)
		if status, err := rundir.StatusOf(dir); err == nil && status.State == rundir.None {
			return dir
		}
	}
}

// newestRun is the folder of the name's run that saved last, and its status.
// It is "" where there is none.
func newestRun(name string) (string, rundir.Status, error) {
	type saved struct {
		dir string
		n   int
		at  time.Time
	}
	var all []saved
	entries, _ := os.ReadDir(parent) // no folder: no runs
	for _, e := range entries {
		n, ours := number(e.Name(), name)
		if !ours {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		if st, err := os.Stat(rundir.CheckpointPath(dir)); err == nil {
			all = append(all, saved{dir, n, st.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b saved) int { return cmp.Or(b.at.Compare(a.at), b.n-a.n) })
	for _, s := range all {
		if !isOf(s.dir, name) {
			continue
		}
		if status, err := rundir.StatusOf(s.dir); err != nil || status.State != rundir.None {
			return s.dir, status, err
		}
	}
	return "", rundir.Status{}, nil
}

// number is the n of the name's nth run that a folder's name says.
func number(dir, name string) (n int, ours bool) {
	if dir == name {
		return 1, true
	}
	text, ours := strings.CutPrefix(dir, name+"-")
	n, err := strconv.Atoi(text)
	return n, ours && err == nil && n >= 2 && strconv.Itoa(n) == text
}

// isOf reports whether the run in a folder has that name: digits-2 may be the
// second run of digits, or a run of a config named digits-2. A run whose config
// cannot be read is taken for one of it.
func isOf(dir, name string) bool {
	path := filepath.Join(dir, "config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return true
	}
	c, err := configs.Parse(path, text, configs.Overlay{})
	return err != nil || c.Name == name
}
