package host

import "golang.org/x/sys/unix"

// systemMemory counts the free pages and the inactive ones, which can be taken back.
func systemMemory() (int64, error) {
	var pages int64
	for _, kind := range []string{"vm.stats.vm.v_free_count", "vm.stats.vm.v_inactive_count"} {
		n, err := unix.SysctlUint32(kind)
		if err != nil {
			return 0, err
		}
		pages += int64(n)
	}
	return pages * pageBytes, nil
}

// machineMemory is the machine's memory.
func machineMemory() (int64, error) {
	all, err := unix.SysctlUint64("hw.physmem")
	return int64(all), err
}
