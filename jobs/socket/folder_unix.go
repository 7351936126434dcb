//go:build unix

package socket

import (
	"fmt"
	"os"
	"syscall"
)

// another is what helps against each folder that is not one's own.
const another = "let BERTH_QUEUE name a file in a folder to which you alone may write"

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
		return fmt.Errorf("%w: another user owns its folder %s: %s", ErrOwner, dir, another)
	}
	if st.Mode().Perm()&0o022 != 0 {
		does := another
		if st.Mode()&os.ModeSticky == 0 { // otherwise it is for all, such as /tmp
			does = fmt.Sprintf("chmod 700 %s, or %s", dir, another)
		}
		return fmt.Errorf("%w: others may write to its folder %s (mode %04o): %s", ErrOwner, dir, st.Mode().Perm(), does)
	}
	return nil
}
