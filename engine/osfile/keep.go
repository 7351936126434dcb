package osfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// KeepAside gives a file a second name, which is free: its own, suffix and a number.
// Without links on the file system, it copies the file to that name. The two names may
// stand for one file: the caller replaces the file at path, and does not write to it.
func KeepAside(path, suffix string) (aside string, err error) {
	for i := 1; ; i++ {
		aside = Beside(path, fmt.Sprintf("%s-%d", suffix, i))
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
	src, err := Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer src.Close()
	st, err := src.Stat()
	if err != nil {
		return err
	}
	dst, err := OpenMode(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, st.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	return dst.Sync()
}
