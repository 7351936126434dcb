package host

import "golang.org/x/sys/unix"

// systemMemory is the share of the machine's memory that memory_pressure(1) calls
// free: memory that no program uses, or that can be taken back at once.
func systemMemory() (int64, error) {
	all, err := machineMemory()
	if err != nil {
		return 0, err
	}
	percent, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil {
		return 0, err
	}
	return all / 100 * int64(min(percent, 100)), nil
}

// machineMemory is the machine's memory.
func machineMemory() (int64, error) {
	all, err := unix.SysctlUint64("hw.memsize")
	return int64(all), err
}
