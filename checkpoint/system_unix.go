//go:build unix

package checkpoint

import (
	"os"
	"strconv"
	"syscall"
)

// mapAhead is the address space that bbolt maps at once: 8 GiB; none where an
// int has 32 bits.
const mapAhead = (8 << 30) & (1<<(strconv.IntSize-1) - 1)

// noRoom are the errors of a write that failed for want of room, which say
// nothing bad of the file.
var noRoom = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// openFile opens a file that may be renamed or replaced while it is open.
func openFile(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o644) }

// lock tries to lock f for one writer or for many readers, and reports whether
// it did. The lock is the one that bbolt takes: bbolt then finds it taken by
// its own file, which is no obstacle.
func lock(f *os.File, write bool) (bool, error) {
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

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// rename puts a file in the place of another, which may be open.
func rename(from, to string) error { return os.Rename(from, to) }

// syncDir makes names in a folder, new or changed, survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// deleted reports whether an open file has no name any more.
func deleted(f *os.File) (bool, error) {
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Nlink == 0, nil
}

func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
