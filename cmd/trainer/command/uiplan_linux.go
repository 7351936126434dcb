package command

import (
	"fmt"
	"os"
	"syscall"
)

// endsWithUs has a process killed when the thread that started it ends, as by a kill of the server.
var endsWithUs = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// memoryOf is the memory that a process takes, in bytes: not what it reserves, since cpu devices reserve that of the machine.
// 0: it has ended.
func memoryOf(pid int) int64 {
	var size, resident int64
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		_, _ = fmt.Sscan(string(text), &size, &resident)
	}
	return resident * int64(os.Getpagesize())
}
