package host

import (
	"errors"
	"fmt"
	"os"
)

// pageBytes is the unit in which the system gives and takes memory.
var pageBytes = int64(os.Getpagesize())

// mapAnonymous maps n bytes of zeroed memory. The caller must unmap it.
func mapAnonymous(n int64) ([]byte, error) {
	mem, err := reserve(n)
	if err != nil {
		return nil, err
	}
	if !backPages(mem, 0, int64(len(mem))) {
		return nil, errors.Join(fmt.Errorf("the system has no %d bytes left", n), unmap(mem))
	}
	return mem, nil
}

// reserve takes n bytes of address space, in whole pages, for memory that
// backPages makes usable. The caller must unmap it.
func reserve(n int64) ([]byte, error) {
	n = roundUp(max(n, 1), pageBytes)
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%d bytes do not fit the address space", n)
	}
	return reservePages(int(n))
}

// giveBackPages tells the system that the whole pages inside a block are not
// needed. They read as zeros when the block is backed and touched again.
func giveBackPages(mem []byte, off, size int64) {
	from, to := roundUp(off, pageBytes), (off+size)/pageBytes*pageBytes
	if from >= to {
		return
	}
	if err := discard(mem[from:to]); err != nil {
		panic(fmt.Sprintf("BUG: giving back pages of our own mapping [%d,%d): %v", from, to, err))
	}
}

// roundUp is the least multiple of to that is at least n.
func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
