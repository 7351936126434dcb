package rundir

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
)

// ownFiles are the files of a folder that a run replaces.
var ownFiles = []string{CheckpointsName, ConfigName, MetricsName, ReportName, TokenizerName}

// CheckFolder refuses, with ErrFolder, a folder that holds a file which a run
// would replace, and which no run wrote. A link counts as such a file: it leads
// to one elsewhere. In Fresh mode, the checkpoints of a run stand for all files
// beside them; they are checked once nobody else can write to them. In Resume mode,
// other metrics are kept beside the run's: see Folder.Start.
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
		if m != Resume || name != MetricsName {
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
