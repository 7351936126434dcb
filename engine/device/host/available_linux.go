package host

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// systemMemory is the least of the system's memory and the control groups' limits.
func systemMemory() (int64, error) {
	free, err := memInfo("/proc/meminfo", "MemAvailable")
	if err != nil {
		return 0, err
	}
	return min(free, groupMemory("/proc/self/cgroup", "/sys/fs/cgroup", leaves)), nil
}

// machineMemory is the least of the machine's memory and the control groups' limits.
func machineMemory() (int64, error) {
	total, err := memInfo("/proc/meminfo", "MemTotal")
	if err != nil {
		return 0, err
	}
	return min(total, groupMemory("/proc/self/cgroup", "/sys/fs/cgroup", limits)), nil
}

// groupMemory is the least memory that is left of, or within, the limits of the process's
// control groups, version 2 or 1; math.MaxInt64 without a limit. list is the file that
// lists the groups, root the folder that holds them; of is leaves or limits.
func groupMemory(list, root string, of func(dir string, files groupFiles) (int64, error)) int64 {
	text, err := os.ReadFile(list)
	if err != nil {
		return math.MaxInt64 // no control groups
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(text)) {
		// a line is hierarchy:controllers:path; version 2 names no controllers
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		switch controllers := strings.Split(part[1], ","); {
		case part[1] == "":
			least = min(least, climb(root, part[2], groupFiles{"memory.max", "memory.current", ""}, of))
			least = min(least, climb(root, part[2], groupFiles{"memory.high", "memory.current", ""}, of)) // beyond it a group hardly runs
		case slices.Contains(controllers, "memory"):
			least = min(least, climb(filepath.Join(root, "memory"), part[2], groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_"}, of))
		}
	}
	return least
}

// groupFiles are the names in a group's folder, by the version of the groups.
type groupFiles struct {
	limit, used string
	below       string // prefix of the fields of memory.stat that count groups below, too
}

// climb is the least memory of a group and of all groups above it. In a container the path
// may be the host's and lead nowhere; the limits of the root then count.
func climb(root, path string, files groupFiles, of func(dir string, files groupFiles) (int64, error)) int64 {
	least := int64(math.MaxInt64)
	for {
		if n, err := of(filepath.Join(root, path), files); err == nil {
			least = min(least, n)
		}
		if path == "/" || path == "." || path == "" {
			return least
		}
		path = filepath.Dir(path)
	}
}

// noLimit is the least limit that stands for none: version 1 writes the largest number of whole pages.
const noLimit = math.MaxInt64 >> 20 << 20

// limits is a group's limit.
func limits(dir string, files groupFiles) (int64, error) {
	return readInt(filepath.Join(dir, files.limit))
}

// leaves is the memory that a group's limit leaves.
func leaves(dir string, files groupFiles) (int64, error) {
	limit, err := limits(dir, files)
	if err != nil || limit >= noLimit {
		return limit, err
	}
	used, err := readInt(filepath.Join(dir, files.used))
	return max(0, limit-max(0, used-cached(filepath.Join(dir, "memory.stat"), files.below))), err
}

// cached is the memory in bytes with contents of files, by a group's
// memory.stat. It counts as used, but the system takes it back where a program
// needs it.
func cached(stat, prefix string) (bytes int64) {
	text, err := os.ReadFile(stat)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == prefix+"inactive_file" || name == prefix+"active_file" {
			n, _ := strconv.ParseInt(number, 10, 64)
			bytes += n
		}
	}
	return bytes
}
