//go:build unix

package socket

import (
	"fmt"
	"os"
	"syscall"
)

// ownedAlone refuses a folder that another user owns or may write to: he could put another socket
// there.
func ownedAlone(dir string) error {
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("folder of the socket: %w", err)
	}
	if !st.IsDir() {
		return fmt.Errorf("%w: %s is a file, where a folder is needed", errPath, dir)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: another user owns its folder %s", ErrOwner, dir)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: others may write to its folder %s: chmod 700 it, or set BERTH_QUEUE", ErrOwner, dir)
	}
	return nil
}
