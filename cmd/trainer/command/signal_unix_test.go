//go:build unix

package command

import (
	"errors"
	"os"
	"syscall"
)

// signalsByName are those that scripts send.
var signalsByName = map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "USR1": syscall.SIGUSR1, "HUP": syscall.SIGHUP,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

// signalled is how a program starts that signals are sent to.
var signalled *syscall.SysProcAttr

func send(p *os.Process, s os.Signal) error { return p.Signal(s) }

// sendSelf sends a signal to this process.
func sendSelf(s syscall.Signal) error { return syscall.Kill(syscall.Getpid(), s) }

// openFiles has scripts make files that the user unprivileged reads, whatever the umask of
// the tests.
func openFiles() { syscall.Umask(0o022) }

// dropPrivileges makes this process one that permissions count for.
func dropPrivileges() error {
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}
