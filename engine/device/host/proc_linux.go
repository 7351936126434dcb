package host

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memInfo is a line of a file like /proc/meminfo, in bytes.
func memInfo(path, name string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == name+":" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}

// readInt reads a file with one number. "max", which means no limit, is none.
func readInt(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
