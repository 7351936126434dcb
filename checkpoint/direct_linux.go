package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// setDirect makes writes to f go to the disk past the system's cache, or not
// any more, and reports whether that is so. The file system may not allow it.
func setDirect(f *os.File, on bool) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return false
	}
	flags &^= unix.O_DIRECT
	if on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err == nil
}
