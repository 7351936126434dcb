package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/engine/osfile"
)

// The files of a run folder.
const (
	ConfigName      = "config.yaml"
	MetricsName     = "metrics.jsonl"
	CheckpointsName = "checkpoints.db"
	ReportName      = "report.json"
	TokenizerName   = "tokenizer.json"        // of a byte pair encoding
	SettingsName    = "tokenizer_config.json" // beside it: the chat template and special tokens, if it has any
	LogName         = "log"                   // of a queued job, with the one before it
	OlderLogName    = "log.1"

	// LogHead begins the log of a job; its number follows. A log without it is somebody else's.
	LogHead = "log of job "
)

// CheckpointPath is the file of a run folder's checkpoints.
func CheckpointPath(dir string) string { return filepath.Join(dir, CheckpointsName) }

// The causes of errors about a folder, or a file in it.
var (
	// ErrHasCheckpoint: a run that is to begin finds another's checkpoints.
	ErrHasCheckpoint = errors.New("the run folder holds a checkpoint")
	// ErrNoCheckpoint: there is nothing to resume from or to use.
	ErrNoCheckpoint = errors.New("no checkpoint")
	// ErrNoRun: a folder that is to be deleted is no run's.
	ErrNoRun = errors.New("there is no run to delete")
	// ErrFolder: the folder holds files that a run would replace.
	ErrFolder = errors.New("the folder cannot hold a run")
	// ErrOutput: a path that must not be written to.
	ErrOutput = errors.New("refusing to write here")
	// ErrPick: two checkpoints are asked for.
	ErrPick = errors.New("two checkpoints are asked for")
)

// ownFiles are the files of a folder that a run replaces.
var ownFiles = []string{CheckpointsName, ConfigName, MetricsName, ReportName, TokenizerName, SettingsName}

// CheckFolder refuses, with ErrFolder, a folder that holds a file which a run
// would replace, and which no run wrote. A link counts as such a file: it leads
// to one elsewhere. In Fresh mode, the checkpoints of a run stand for all files
// beside them; they are checked once nobody else can write to them. In Resume mode,
// other metrics are kept beside the run's, see Folder.Start, and other settings of a
// tokenizer stay: see Folder.SetTokenizer.
func CheckFolder(dir string, m Mode) error {
	for _, name := range ownFiles {
		path := filepath.Join(dir, name)
		st, err := os.Lstat(path)
		switch {
		case err != nil: // opening it says what is wrong
		case st.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%w: %s is a link, and a run writes its own files only: choose another run folder, or put the file itself there", ErrFolder, path)
		case !st.Mode().IsRegular():
			return fmt.Errorf("%w: %s is not a file: choose another run folder, or remove it", ErrFolder, path)
		}
	}
	if m == Fresh && exists(CheckpointPath(dir)) {
		return nil
	}
	for _, name := range foreign(dir) {
		if m != Resume || name != MetricsName && name != SettingsName {
			return notOurs(filepath.Join(dir, name))
		}
	}
	return nil
}

// notOurs is the error about a file that no run wrote, under the name of a run's.
func notOurs(path string) error {
	return fmt.Errorf("%w: %s is not of a run, and a run keeps its own under that name: choose another run folder, or move the file", ErrFolder, path)
}

// checkOurs refuses checkpoints that no run wrote. Nobody else can write to them, or they
// are damaged.
func checkOurs(ctx context.Context, path string) error {
	switch foreign, err := checkpoint.Foreign(ctx, path); {
	case err != nil:
		return err
	case foreign:
		return notOurs(path)
	}
	return nil
}

// foreign are the files of a folder that have the name of a run's text, and no run
// wrote. Its checkpoints, or its config just as a run writes it, mark a run's folder.
func foreign(dir string) (names []string) {
	begun := exists(CheckpointPath(dir))
	marked := begun || exists(filepath.Join(dir, ConfigName))
	for _, c := range []struct {
		name string
		ours func([]byte) bool
	}{
		{ConfigName, func(text []byte) bool { return begun || resolved(text) }},
		{MetricsName, func(text []byte) bool { return marked && metricsLine.Match(text) }},
		{ReportName, func(text []byte) bool { return marked && reportStart.Match(text) }},
		{TokenizerName, func([]byte) bool { return marked && learns(dir) }},
		{SettingsName, func(text []byte) bool { return marked && learns(dir) && chat.Written(text) }},
	} {
		if !ownText(filepath.Join(dir, c.name), c.ours) {
			names = append(names, c.name)
		}
	}
	return names
}

// learns reports whether a run in a folder writes its tokenizer there, by its config. One
// that cannot be read may.
func learns(dir string) bool {
	text, err := osfile.Read(filepath.Join(dir, ConfigName), configs.MaxFile+1)
	if err != nil {
		return true
	}
	c, err := configs.Parse(ConfigName, text, configs.Overlay{})
	return err != nil || c.Data.Tokenizer != "" && c.Data.Tokenizer != "char" && c.Data.Tokenizer != "bytes"
}

// looked is the number of bytes of a file that decide whose it is.
const looked = 1 << 20

// ownText reports whether the file at a path is blank, as a crash may leave it,
// or begins with a text that is ours. One that cannot be read counts as ours:
// opening it says what is wrong.
func ownText(path string, ours func([]byte) bool) bool {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return true
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, looked))
	return err != nil || len(bytes.Trim(text, " \r\n\x00")) == 0 || ours(text)
}

// metricsLine is the beginning of a line that a run writes. Damage to others
// does not matter.
var metricsLine = regexp.MustCompile(`(?m)^\{"(step|epoch)":\d`)

// reportStart is the beginning of a run's report.
var reportStart = regexp.MustCompile(`^\{\s*"steps":\s*\d+,\s*"epochs":`)

// resolved reports whether a config is just as a run writes it, so that
// nobody's own words are in it.
func resolved(text []byte) bool {
	c, err := configs.Parse(ConfigName, text, configs.Overlay{})
	if err != nil {
		return false
	}
	again, err := c.YAML()
	return err == nil && bytes.Equal(text, again)
}

// Runs are the paths of the run folders in a folder, by name.
func Runs(parent string) (dirs []string, err error) {
	list, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		if dir := filepath.Join(parent, f.Name()); IsRun(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// IsRun reports whether a folder holds a run: checkpoints, or a config and metrics
// as a run writes them.
func IsRun(dir string) bool {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return false
	}
	if st, err := os.Lstat(CheckpointPath(dir)); err == nil {
		return st.Mode().IsRegular()
	}
	return exists(filepath.Join(dir, MetricsName)) && exists(filepath.Join(dir, ConfigName)) && CheckFolder(dir, Begin) == nil
}

// CheckRemove refuses with ErrNoRun a folder that holds no run, with ErrFolder a link to a
// folder, and with checkpoint.ErrHeld one in which a run trains.
func CheckRemove(dir string) error {
	if to, err := os.Readlink(filepath.Clean(dir)); err == nil {
		return fmt.Errorf("%w: %s is a link to %s: name that folder", ErrFolder, dir, to)
	}
	dir = osfile.Resolve(dir)
	if !IsRun(dir) {
		return fmt.Errorf("%s: %w: it has no %s, which marks a run: name a run folder, such as runs/digits, or delete the files themselves", dir, ErrNoRun, CheckpointsName)
	}
	if _, err := StatusOf(dir); errors.Is(err, checkpoint.ErrHeld) {
		return err
	}
	if foreign, err := checkpoint.Foreign(context.Background(), CheckpointPath(dir)); foreign && err == nil {
		return fmt.Errorf("%s: %w: its %s is not of a run: delete the files themselves", dir, ErrNoRun, CheckpointsName)
	}
	return nil
}

// Remove deletes a run: the files that a run writes, and the folder unless it holds
// others. It returns the names of those. It fails as CheckRemove does.
func Remove(dir string) (left []string, err error) {
	dir = osfile.Resolve(dir)
	if err := CheckRemove(dir); err != nil {
		return nil, err
	}
	claim, err := checkpoint.ClaimFile(CheckpointPath(dir), checkpoint.OpenOptions{Readers: checkpoint.WaitForReaders})
	if err != nil {
		return nil, err
	}
	others := foreign(dir)
	for _, name := range []string{LogName, OlderLogName} {
		if !ownText(filepath.Join(dir, name), func(text []byte) bool { return bytes.HasPrefix(text, []byte(LogHead)) }) {
			others = append(others, name)
		}
	}
	for _, name := range append(eventFiles(dir), ReportName, MetricsName, TokenizerName, SettingsName, ConfigName, LogName, OlderLogName) {
		_ = os.Remove(unfinished(filepath.Join(dir, name))) // or it is among those that are left
		path := filepath.Join(dir, name)
		if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || slices.Contains(others, name) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return nil, errors.Join(err, claim.Close())
		}
	}
	if err := claim.Remove(); err != nil { // last: the checkpoints mark the folder
		return nil, err
	}
	return removeFolder(dir)
}

// removeFolder removes a folder that is empty, and otherwise returns the names of
// the files in it. A link to a folder stays.
func removeFolder(dir string) (left []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		left = append(left, f.Name())
	}
	if st, err := os.Lstat(dir); len(left) > 0 || err != nil || !st.IsDir() {
		return left, err
	}
	return nil, os.Remove(dir)
}

// nothingToResume says that there is no checkpoint, and how to begin.
func nothingToResume(dir string) error {
	return fmt.Errorf("%w to resume from in %s: trainer train, with --run %s and without --resume, begins the run", ErrNoCheckpoint, dir, dir)
}

// noneWhole is the damage of a file of which no checkpoint can be used. The
// first one skipped, the newest, stands for the others.
func noneWhole(path string, skipped []checkpoint.Skipped) error {
	return fmt.Errorf("%w: %s: none of its checkpoints is whole (%v)", checkpoint.ErrDamaged, path, skipped[0])
}

// advised adds to damage what can be done about it.
func advised(dir string, err error) error {
	if !errors.Is(err, checkpoint.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; `trainer checkpoints repair %s whole.db` copies what may still be read, `trainer train CONFIG --run %s --fresh` begins anew and deletes it", err, dir, dir)
}
