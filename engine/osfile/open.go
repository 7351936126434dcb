package osfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The causes of errors about a path that must lead to a file.
var (
	// ErrNotFile: a pipe, a socket, a device or a folder is there.
	ErrNotFile = errors.New("a pipe, a device or a folder, where a file is needed")
	// ErrLink: a link is there, and writing would change the file it leads to.
	ErrLink = errors.New("a link, which writing does not follow: name the file that it leads to")
)

// Open opens a file that may be renamed or replaced while it is open. With
// os.O_RDWR it refuses a link (ErrLink). It never waits for a pipe: all but a
// regular file is refused (ErrNotFile). A file that it makes has the mode that
// the umask leaves.
func Open(path string, flag int) (*os.File, error) { return openMode(path, flag, 0o666) }

// OpenMode is Open, where a file that it makes has at most that mode.
func OpenMode(path string, flag int, mode fs.FileMode) (*os.File, error) {
	return openMode(path, flag, mode)
}

// Read reads a regular file, and of a larger one the first most bytes.
func Read(path string, most int) (_ []byte, err error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, int64(most)))
}

func refused(path string, why error) error {
	return &os.PathError{Op: "open", Path: path, Err: why}
}

// regular is f, or an error that closes it unless it is a regular file.
func regular(f *os.File) (*os.File, error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = refused(f.Name(), ErrNotFile)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// CreateFor makes the file next, which is to take the place of the one at path.
// A file or link named next is removed first. The mode is that of the file at
// path; without one, the umask's.
func CreateFor(path, next string) (*os.File, error) {
	if st, err := os.Lstat(next); err == nil && !st.IsDir() {
		if err := os.Remove(next); err != nil {
			return nil, err
		}
	}
	flag := os.O_RDWR | os.O_CREATE | os.O_EXCL
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return os.OpenFile(next, flag, 0o666)
	}
	f, err := os.OpenFile(next, flag, st.Mode().Perm())
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(st.Mode().Perm()); err != nil && !errors.Is(err, errors.ErrUnsupported) { // the umask may have taken some of it
		return nil, errors.Join(err, f.Close(), os.Remove(next))
	}
	return f, nil
}

// isLink reports whether a path is a symbolic link, wherever it leads.
func isLink(path string) bool {
	st, err := os.Lstat(filepath.Clean(path))
	return err == nil && st.Mode()&fs.ModeSymlink != 0
}
