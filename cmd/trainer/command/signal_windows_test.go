package command

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// signalsByName are those that scripts send. Ctrl-Break stands for all that
// ask a program to end; there is none that asks for a checkpoint.
var signalsByName = map[string]os.Signal{"INT": os.Interrupt, "TERM": os.Interrupt, "HUP": os.Interrupt, "KILL": os.Kill}

// signalled is how a program starts that signals are sent to: in a group of
// its own, since Ctrl-Break goes to a whole group.
var signalled = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}

func send(p *os.Process, s os.Signal) error {
	if s == os.Kill {
		return p.Kill()
	}
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(p.Pid))
}

// sendSelf sends Ctrl-Break to this process and those it started.
func sendSelf(syscall.Signal) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, 0)
}

// openFiles has nothing to do.
func openFiles() {}

// dropPrivileges has nothing to drop: permissions count for every account.
func dropPrivileges() error { return nil }
