//go:build unix

package train_test

import "syscall"

// limitFileSize is the most bytes that a file of this process may have from now
// on.
func limitFileSize(n uint64) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		return err
	}
	l.Cur = least(n, l.Max)
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
}

// least is the smaller of two limits, of the type that the system has for
// them.
func least[T int64 | uint64](n uint64, most T) T {
	if n < uint64(most) {
		return T(n)
	}
	return most
}
