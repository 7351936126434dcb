package runs

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
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

// Reserved says of a folder which queued job is to train there, or trains there: its number, or 0. Such a run
// may go on elsewhere, and no other begins in its folder.
type Reserved func(dir string) (job int)

// ChooseFolder chooses where to train a config: the folder given or, without
// one (""), a folder of that name's runs. There the newest run counts: it goes
// on or is deleted. A run that begins takes the first free folder, but only
// once the newest is finished; those of queued jobs do not count for it.
func ChooseFolder(given, name string, m Mode, reserved Reserved) (Folder, error) {
	if given = osfile.Resolve(given); given != "" {
		f := Folder{Dir: given, Resume: goesOn(given, m)}
		if !f.Resume {
			if job := reserved(given); job != 0 {
				return f, cli.Usagef("%s is the run folder of job %d: --run DIR begins elsewhere, and trainer jobs cancel %d gives it free", given, job, job)
			}
		}
		if m == Begin {
			return f, rundir.CheckBegin(given)
		}
		return f, nil
	}
	others := reserved
	if m == Resume || m == Auto {
		others = func(string) int { return 0 }
	}
	newest, status, err := newestRun(name, others)
	switch {
	case newest == "" && m == Resume:
		return Folder{Dir: folder(name, 1), Resume: true}, nil // which says that there is no run
	case newest == "":
		return firstRun(name, reserved), nil
	case m == Begin && err == nil && status.State == rundir.Finished:
		free := firstFree(name, reserved)
		return Folder{Dir: free, Note: fmt.Sprintf("%s is finished: this run goes to %s", newest, free)}, nil
	case m == Begin && err == nil:
		return Folder{}, cli.Usagef("%s is unfinished%s: --resume goes on with it, --fresh deletes it and begins anew, --run DIR begins elsewhere", newest, at(status))
	}
	f := Folder{Dir: newest, Resume: m == Resume || m == Auto}
	switch {
	case newest == folder(name, 1):
	case f.Resume:
		f.Note = fmt.Sprintf("going on with %s, the newest run", newest)
	case m == Fresh:
		f.Note = fmt.Sprintf("beginning anew in %s, the newest run", newest)
	}
	return f, nil // training says what is wrong with a newest run that cannot be read
}

// NewFolder is the first folder of a name's runs that is not taken.
func NewFolder(name string, reserved Reserved) string { return firstFree(name, reserved) }

// firstRun is the folder for a run of a name that has none yet.
func firstRun(name string, reserved Reserved) Folder {
	f := Folder{Dir: firstFree(name, reserved)}
	if first := folder(name, 1); f.Dir != first {
		f.Note = fmt.Sprintf("%s is taken: this run goes to %s", first, f.Dir)
	}
	return f
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

// at is the progress of an unfinished run, in words.
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

// firstFree is the first of a name's folders that is not taken.
func firstFree(name string, reserved Reserved) string {
	n := 1
	for taken(folder(name, n)) || reserved(folder(name, n)) != 0 {
		n++
	}
	return folder(name, n)
}

// taken reports whether a new run in dir would fail or overwrite something: dir
// is not a folder, holds a run, files of a run's names that no run wrote, or the
// report of a run whose checkpoints are gone.
// A path that cannot be looked at is not taken: training says why it fails.
func taken(dir string) bool {
	if _, err := os.Lstat(dir); err != nil {
		return false
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return true
	}
	if _, err := os.Stat(filepath.Join(dir, rundir.ReportName)); err == nil || rundir.CheckFolder(dir, rundir.Begin) != nil {
		return true
	}
	status, err := rundir.StatusOf(dir)
	return err != nil || status.State != rundir.None
}

// newestRun is the folder of the name's run that saved last, and its status.
// It is "" where there is none. Runs in reserved folders are passed over.
func newestRun(name string, reserved Reserved) (string, rundir.Status, error) {
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
		if !isOf(s.dir, name) || reserved(s.dir) != 0 {
			continue
		}
		if status, err := rundir.StatusOf(s.dir); err != nil || status.State != rundir.None {
			return s.dir, status, err
		}
	}
	return "", rundir.Status{}, nil
}

// number reads n from the name of a folder of the name's nth run.
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
// cannot be read counts as one of that name.
func isOf(dir, name string) bool {
	path := filepath.Join(dir, "config.yaml")
	text, err := osfile.Read(path, configs.MaxFile+1)
	if err != nil {
		return true
	}
	c, err := configs.Parse(path, text, configs.Overlay{})
	return err != nil || c.Name == name
}
