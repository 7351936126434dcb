//go:build unix

package crew

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// gone reports whether a process of this machine has ended. Its parent may not have asked how yet: then the system lists it as Z.
func gone(process int) bool {
	if errors.Is(syscall.Kill(process, 0), syscall.ESRCH) {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	_, state, _ := bytes.Cut(text, []byte(") "))
	return err == nil && bytes.HasPrefix(state, []byte("Z"))
}
