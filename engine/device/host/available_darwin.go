package host

import "golang.org/x/sys/unix"

// systemMemory is the share of the machine's memory that memory_pressure(1) calls
// free: memory that no program uses, or that can be taken back at once.
func systemMemory() (int64, error) {
	all, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, err
	}
	percent, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil {
		return 0, err
	}
	return int64(all / 100 * uint64(min(percent, 100))), nil
}
