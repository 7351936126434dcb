package host

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// available is the least of the system's memory and the control groups' limits.
func available() (int64, error) {
	free, err := memAvailable("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	return min(free, groupAvailable("/proc/self/cgroup", "/sys/fs/cgroup")), nil
}

// memAvailable is MemAvailable of a file like /proc/meminfo, in bytes.
func memAvailable(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no MemAvailable", path)
}

// groupAvailable is the memory that the limits of the process's control groups,
// version 2 or 1, leave: the least of them, or math.MaxInt64 without a limit.
// list is the file that lists the groups, root the folder that holds them.
func groupAvailable(list, root string) int64 {
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
		switch part[1] {
		case "":
			least = min(least, climb(root, part[2], "memory.max", "memory.current"))
		case "memory":
			least = min(least, climb(filepath.Join(root, "memory"), part[2], "memory.limit_in_bytes", "memory.usage_in_bytes"))
		}
	}
	return least
}

// climb is the least memory that the limits of a group and of all groups above
// it leave. In a container the path may be the host's and lead nowhere; the
// limits of the root then count.
func climb(root, path, limit, used string) int64 {
	least := int64(math.MaxInt64)
	for {
		l, err1 := readInt(filepath.Join(root, path, limit))
		u, err2 := readInt(filepath.Join(root, path, used))
		if err1 == nil && err2 == nil {
			least = min(least, max(0, l-u))
		}
		if path == "/" || path == "." || path == "" {
			return least
		}
		path = filepath.Dir(path)
	}
}

// readInt reads a file with one number. "max", which means no limit, is none.
func readInt(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
