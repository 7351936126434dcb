package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/berth-ml/berth/engine/osfile"
)

// A file that will replace another is made beside it, with one of these suffixes.
// Files with such names are removed: see sweep.
const (
	compactSuffix = ".berth-compact"
	wholeSuffix   = ".berth-whole"
	freshSuffix   = ".berth-fresh"
)

// notNamed is an error about the unfinished file tmp as one about the file that it
// was to be.
func notNamed(err error, tmp, file string) error {
	switch {
	case err == nil || !strings.Contains(err.Error(), tmp):
		return err
	case outOfSpace(err): // which bbolt words for itself
		return &renamed{err, fmt.Sprintf("%s cannot be written: %v", file, noRoomOf(err))}
	}
	return &renamed{err, strings.ReplaceAll(err.Error(), tmp, file)}
}

type renamed struct {
	cause error
	text  string
}

func (r *renamed) Error() string { return r.text }
func (r *renamed) Unwrap() error { return r.cause }

// appear gives a finished file its name. It fails if there is a file of that name.
func appear(tmp, name string) error {
	err := os.Link(tmp, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return errors.Join(err, removeIfThere(tmp))
	}
	// Not every file system has links.
	if _, e := os.Lstat(name); e == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrExist)
	}
	return osfile.Rename(tmp, name)
}

// sweep removes unfinished replacements of a file, left by killed processes. The
// caller has the file locked, so no process is making one. One that cannot be
// removed is an error later, when another is made.
func sweep(path string) {
	for _, suffix := range []string{compactSuffix, wholeSuffix, freshSuffix} {
		_ = removeMade(osfile.Beside(path, suffix))
	}
}

// ownName is the name of a file that will become the one at path: path, suffix
// and the id of this process. Those that killed processes left are removed.
func ownName(path, suffix string) string {
	for _, left := range osfile.LeftBeside(path, suffix) {
		_ = removeMade(left) // it is in nobody's way
	}
	return osfile.Beside(path, fmt.Sprintf("%s%d", suffix, os.Getpid()))
}

// removeMade removes an unfinished file, and the process id beside it.
func removeMade(path string) error {
	return errors.Join(removeIfThere(path), removeIfThere(pidPath(path)))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// takePlace puts a finished file in the place of old at path, with its mode.
func takePlace(tmp, path string, old *os.File) error {
	st, err := old.Stat()
	if err != nil {
		return err
	}
	if err := os.Chmod(tmp, st.Mode().Perm()); err != nil {
		return err
	}
	return osfile.Rename(tmp, path)
}
