package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Recover puts a file in place of one whose structure is damaged, so that it
// can be opened for writing again: every whole checkpoint is copied, and the
// damaged file is kept under the name that is returned. What had to be left
// out goes to report, which may be nil. Stopped at any moment, one of the two
// files is at path. ErrNotFound, and path as it was, when no checkpoint is whole.
func Recover(ctx context.Context, path string, report func(Skipped)) (aside string, err error) {
	fresh := path + ".whole"
	if err := removeIfThere(fresh); err != nil {
		return "", err
	}
	n, err := Salvage(ctx, path, fresh, report)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: %w: none is whole", path, ErrNotFound)
	}
	if err == nil {
		aside, err = keepAside(path)
	}
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return "", errors.Join(err, removeIfThere(fresh))
	}
	return aside, syncDir(filepath.Dir(path))
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
	src, err := os.Open(from)
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
