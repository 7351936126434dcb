package host

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// addressSpace is what RLIMIT_AS, the limit of ulimit -v, leaves in bytes.
func addressSpace() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	text, err := os.ReadFile("/proc/self/statm")
	var pages int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	if err != nil {
		return math.MaxInt64
	}
	return max(0, int64(limit.Cur)-pages*int64(os.Getpagesize()))
}
