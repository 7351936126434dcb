package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pageBytes is the unit in which the system gives and takes memory.
var pageBytes = int64(unix.Getpagesize())

// mapAnonymous reserves n bytes of zeroed address space. Pages take memory
// when they are first touched. The caller must unix.Munmap the result.
func mapAnonymous(n int64) ([]byte, error) {
	n = roundUp(max(n, 1), pageBytes)
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes do not fit the address space", n)
	}
	return unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
}

// giveBackPages tells the system that the whole pages inside b are not needed:
// they read as zeros when next touched.
func giveBackPages(mem []byte, off, size int64) {
	from, to := roundUp(off, pageBytes), (off+size)/pageBytes*pageBytes
	if from >= to {
		return
	}
	if err := unix.Madvise(mem[from:to], unix.MADV_DONTNEED); err != nil {
		panic(fmt.Sprintf("BUG: madvise of our own mapping [%d,%d): %v", from, to, err))
	}
}

// roundUp is the least multiple of to that is at least n.
func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
