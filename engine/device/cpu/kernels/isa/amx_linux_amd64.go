package isa

import "golang.org/x/sys/unix"

// allowTiles asks the system for AMX's registers, which it gives to processes
// that ask (arch_prctl(2), ARCH_REQ_XCOMP_PERM), and reports whether it does.
func allowTiles() bool {
	const request, tileData = 0x1023, 18
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, request, tileData, 0)
	return err == 0
}
