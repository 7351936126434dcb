package addresses

import (
	"math"
	"syscall"
)

// exitUsage is the exit code of a mistake of usage.
const exitUsage = 2

// The check comes before the other packages are initialized: they take memory, and the program
// would end there, now and then.
func init() {
	if text := tooFew(limit()); text != "" {
		_, _ = syscall.Write(2, []byte("trainer: "+text+"\n")) // there is nowhere else to say it
		syscall.Exit(exitUsage)
	}
}

// limit is the limit on the process's address space in bytes.
func limit() int64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &l) != nil || l.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(l.Cur)
}
