package host

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// leastAddresses is the address space that the strictest limit leaves: on the process's address
// space, on its private memory, or on the memory promised to all processes.
func leastAddresses() addresses {
	size, data := mapped("/proc/self/statm")
	least := unlimited
	for _, a := range []addresses{
		{rlimitLeft(syscall.RLIMIT_AS, size), "ulimit -v"},
		{rlimitLeft(syscall.RLIMIT_DATA, data), "ulimit -d"},
		{promisesLeft("/proc/sys/vm/overcommit_memory", "/proc/meminfo"), "vm.overcommit_memory"},
	} {
		if a.bytes < least.bytes {
			least = a
		}
	}
	return least
}

// mapped reads a file like /proc/self/statm: the bytes of all mappings, and of
// the private ones that can be written. Both are 0 if it cannot be read.
func mapped(path string) (size, data int64) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	var resident, shared, code, libraries int64
	if _, err = fmt.Sscan(string(text), &size, &resident, &shared, &code, &libraries, &data); err != nil {
		return 0, 0
	}
	return size * pageBytes, data * pageBytes
}

// rlimitLeft is how many bytes a limit on the process leaves, with used bytes in use.
func rlimitLeft(resource int, used int64) int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(resource, &limit) != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return max(0, int64(limit.Cur)-used)
}

// promisesLeft is the bytes that the system may still promise its processes. Few systems
// have this limit: vm.overcommit_memory = 2 sets it. mode and meminfo are the files that say so.
func promisesLeft(mode, meminfo string) int64 {
	const strict = 2
	if m, err := readInt(mode); err != nil || m != strict {
		return math.MaxInt64
	}
	limit, err1 := memInfo(meminfo, "CommitLimit")
	used, err2 := memInfo(meminfo, "Committed_AS")
	if err1 != nil || err2 != nil {
		return math.MaxInt64
	}
	return max(0, limit-used)
}
