package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// What is put in a file's place is made beside it, under these names, which nobody
// gives to files of his own: they are removed.
const (
	compactSuffix = ".berth-compact"
	wholeSuffix   = ".berth-whole"
	freshSuffix   = ".berth-fresh"
)

// appear gives a finished file its name, unless there is a file of that name by
// now.
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

// sweep removes what processes that were killed had made to put in a file's
// place. The caller has the file locked, so nobody is making any of it. What
// cannot be removed is in the way only of the next to make it, who says so.
func sweep(path string) {
	for _, suffix := range []string{compactSuffix, wholeSuffix, freshSuffix} {
		_ = removeMade(path + suffix)
	}
}

// removeMade removes a file that was being made, and the process id beside it.
func removeMade(path string) error {
	return errors.Join(removeIfThere(path), removeIfThere(pidPath(path)))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepAside gives a file a second name that is free, or a copy of that name
// where the file system has no links.
func keepAside(path string) (string, error) {
	for i := 1; ; i++ {
		aside := fmt.Sprintf("%s.damaged-%d", path, i)
		err := os.Link(path, aside)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = copyFile(path, aside)
		}
		if !errors.Is(err, fs.ErrExist) {
			return aside, err
		}
	}
}

func copyFile(from, to string) (err error) {
	src, err := osfile.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}
