package host

import (
	"errors"
	"fmt"
	"os"

	"github.com/berth-ml/berth/internal/units"
)

// pageBytes is the unit in which the system gives memory.
var pageBytes = int64(os.Getpagesize())

// mapAnonymous maps n bytes of zeroed memory. The caller must unmap it.
func mapAnonymous(n int64) ([]byte, error) {
	mem, err := reserve(n)
	if err != nil {
		return nil, err
	}
	if !backPages(mem, 0, int64(len(mem))) {
		return nil, errors.Join(fmt.Errorf("the system has no %s left", units.Bytes(n)), unmap(mem))
	}
	return mem, nil
}

// reserve takes n bytes of address space, in whole pages, for memory that
// backPages makes usable. The caller must unmap it.
func reserve(n int64) ([]byte, error) {
	n = roundUp(max(n, 1), pageBytes)
	if int64(int(n)) != n {
		return nil, fmt.Errorf("%s do not fit the address space", units.Bytes(n))
	}
	return reservePages(int(n))
}

// roundUp is the least multiple of to that is at least n.
func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
