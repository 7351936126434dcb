//go:build unix

package checkpoint

import (
	"strconv"
	"syscall"
)

// mostAhead is the most bytes of addresses that bbolt maps ahead.
const mostAhead = 8 << 30

// mapAhead is how many bytes of addresses bbolt maps at once; none where an int
// has 32 bits. Where addresses are limited, it takes at most half of
// those that are free.
func mapAhead() int {
	if strconv.IntSize == 32 {
		return 0
	}
	for n := int64(mostAhead); n >= 1<<20; n /= 2 {
		addresses, err := syscall.Mmap(-1, 0, int(2*n), syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			continue
		}
		if syscall.Munmap(addresses) == nil {
			return int(n)
		}
	}
	return 0
}
