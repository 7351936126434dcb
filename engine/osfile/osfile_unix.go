//go:build unix

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// NoRoom lists the errors of a write that found no room: the file is as sound as
// before.
var NoRoom = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// openMode is OpenMode. Without O_NONBLOCK, opening a pipe would wait for its
// other end.
func openMode(path string, flag int, mode fs.FileMode) (*os.File, error) {
	if flag&(os.O_RDWR|os.O_WRONLY) != 0 {
		flag |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, mode)
	switch {
	case err != nil && flag&syscall.O_NOFOLLOW != 0 && isLink(path):
		return nil, refused(path, ErrLink)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EISDIR): // a pipe that nobody reads, a socket; a folder
		return nil, refused(path, ErrNotFile)
	case err != nil:
		return nil, err
	}
	return regular(f)
}

// Lock tries to lock f for one writer or for many readers, and reports whether
// it did. It is the lock that bbolt takes, too, which the same open file
// may take twice.
func Lock(f *os.File, write bool) (bool, error) {
	how := syscall.LOCK_SH
	if write {
		how = syscall.LOCK_EX
	}
	err := error(syscall.EINTR)
	for err == syscall.EINTR {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	}
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// Unlock ends Lock.
func Unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// Rename puts a file in the place of another, which may be open.
func Rename(from, to string) error { return os.Rename(from, to) }

// SyncDir makes names in a folder, new or changed, survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Deleted reports whether an open file has no name any more.
func Deleted(f *os.File) (bool, error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Nlink == 0, nil
}

// ProcessExists reports whether there is a process of that id.
func ProcessExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
