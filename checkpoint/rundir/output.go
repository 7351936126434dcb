package rundir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/engine/osfile"
)

// CheckOutput refuses, with ErrOutput, a path that cannot be written to, that is a file of a run,
// or that is an input of the command: its config, its data or its weights. An input that is a
// folder stands for the files in it. run is the folder of the command's own run, which may not
// exist yet; "" if it has none.
func CheckOutput(path, run string, inputs ...string) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", path, ErrOutput, fmt.Sprintf(format, args...))
	}
	if path == "" {
		return fmt.Errorf("%w: the name is empty; name a file", ErrOutput)
	}
	dir := folderOf(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return refuse("%s is no folder; make it first", dir)
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return refuse("%v; name another file", causeOf(err))
	case st.IsDir():
		return refuse("it is a folder; name a file in it")
	case st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0 && !ofSystem(path):
		return refuse("it is a pipe or a socket; name a file, or write to standard output and pipe that")
	}
	if run != "" && SameFile(path, run) {
		return refuse("it is the run folder; name a file")
	}
	if real := followed(path); ofRun(real, run) {
		return refuse("it belongs to the run in %s; name another file", filepath.Dir(real))
	}
	for _, input := range inputs {
		if err == nil && isInput(path, st, input) {
			return refuse("the command uses %s; name another file", input)
		}
	}
	if err := tryBeside(path); err != nil {
		return refuse("no file can be made in %s: %v; name a file elsewhere", dir, causeOf(err))
	}
	return nil
}

// isInput reports whether the file at path is the input, one that matches the pattern that the
// input is, or in the folder that it is.
func isInput(path string, file os.FileInfo, input string) bool {
	st, err := os.Stat(input)
	if err != nil {
		found, _ := filepath.Glob(input) // of a bad pattern: none
		return slices.ContainsFunc(found, func(name string) bool { return SameFile(path, name) })
	}
	if !st.IsDir() {
		return os.SameFile(file, st)
	}
	path, err = filepath.Abs(followed(path))
	dir, e := filepath.Abs(followed(input))
	if err != nil || e != nil {
		return false
	}
	inside, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(inside)
}

// tryBeside makes the file that WriteOutput would, and removes it.
func tryBeside(path string) error {
	if direct(path) {
		return nil
	}
	f, err := osfile.CreateBeside(followed(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// ofRun reports whether a path is a file that a run has in its folder: in that of the command's
// own run, or in any with checkpoints.
func ofRun(path, run string) bool {
	dir, name := filepath.Split(path)
	if !exists(CheckpointPath(dir)) && (run == "" || !SameFile(folderOf(path), run)) {
		return false
	}
	switch name {
	case ConfigName, MetricsName, ReportName, TokenizerName, SettingsName, CheckpointsName:
		return true
	}
	return eventsName.MatchString(name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ofSystem reports whether a path is one of the system's names for something
// open, such as /dev/stdout.
func ofSystem(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// SameFile reports whether two paths lead to one file, or would if it existed.
func SameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil || errY == nil {
		return errX == nil && errY == nil && os.SameFile(x, y)
	}
	if filepath.Base(a) != filepath.Base(b) {
		return false
	}
	x, errX = os.Stat(folderOf(a))
	y, errY = os.Stat(folderOf(b))
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// folderOf is the folder of a path. Unlike [filepath.Dir] it keeps a/.. as it is:
// behind a link, that is another folder than the one of the link.
func folderOf(path string) string {
	switch dir, _ := filepath.Split(path); {
	case dir == "":
		return "."
	case len(dir) == len(filepath.VolumeName(dir))+1: // the root
		return dir
	default:
		return strings.TrimRightFunc(dir, func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(uint8(r)) })
	}
}

// followed is a path without symbolic links, also where there is no file yet.
func followed(path string) string {
	for range 40 { // more are a circle
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		dir, err := filepath.EvalSymlinks(folderOf(path))
		if err != nil {
			return path
		}
		path = filepath.Join(dir, filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil {
			return path // it is no link
		}
		if !filepath.IsAbs(to) {
			to = dir + string(filepath.Separator) + to
		}
		path = to
	}
	return path
}

// WriteOutput gives a file the contents that write writes. They go to a file
// beside it, which takes its name once it is whole: on an error the file stays
// as it was. A path that is no regular file, such as /dev/stdout, is written to
// directly.
func WriteOutput(path string, write func(io.Writer) error) error {
	if direct(path) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(f, write), f.Close())
	}
	return osfile.Replace(followed(path), func(f *os.File) error { return buffered(f, write) })
}

// direct reports whether WriteOutput writes to a path without a file beside it.
func direct(path string) bool {
	st, err := os.Stat(path)
	return err == nil && (!st.Mode().IsRegular() || ofSystem(path))
}

// replace gives a file of the run folder new contents: stopped at any moment,
// it has all of them or the old ones.
func replace(path string, text []byte) error {
	if old, err := osfile.Read(path, len(text)+1); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return WriteOwn(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteOwn is WriteOutput for a file that a run names itself: a link there is
// replaced, and what it leads to stays.
func WriteOwn(path string, write func(io.Writer) error) error {
	return osfile.ReplaceBy(path, unfinished(path), func(f *os.File) error { return buffered(f, write) })
}

// unfinished is the name of a file while it is written. No other process uses it: a run
// has its folder alone. It is no name that a user would choose.
func unfinished(path string) string { return osfile.Beside(path, ".berth-new") }

// causeOf is an error of the system without the operation and the path.
func causeOf(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// buffered has write write to w in large pieces, and returns the first error.
func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriter(w)
	err := write(b)
	if e := b.Flush(); err == nil {
		err = e
	}
	return err
}
