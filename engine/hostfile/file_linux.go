package hostfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file without a name.
func nameless(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // the file system has none
		return createAndRemove(dir)
	}
	return f, err
}

// takeRoom takes a range of the file on the disk.
func takeRoom(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fillRoom(f, off, n)
	}
	return err
}
