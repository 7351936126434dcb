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

// giveRoom gives a range of the file back to the disk.
func giveRoom(f *os.File, off, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
}

// freeRoom is the bytes that are free on the file's disk.
func freeRoom(f *os.File) (bytes int64, known bool) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
