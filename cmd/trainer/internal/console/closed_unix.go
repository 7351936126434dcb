//go:build unix

package console

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Closed reports whether w prints to a standard output that was closed before
// the program began (>&-). Go opens the null device in its place, for reading
// and writing; >/dev/null opens it for writing alone. A null device that the
// parent process opened for both looks the same, and counts as closed.
func Closed(w io.Writer) bool {
	if s, ok := w.(*Stream); ok {
		w = s.to
	}
	f, ok := w.(*os.File)
	if !ok || f.Fd() != uintptr(syscall.Stdout) {
		return false
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return err != nil
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	out, err := f.Stat()
	return err == nil && os.SameFile(null, out)
}
