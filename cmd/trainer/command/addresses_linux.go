package command

import (
	"math"
	"syscall"
)

// addressLimit is the limit on the process's address space in bytes.
func addressLimit() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(limit.Cur)
}
