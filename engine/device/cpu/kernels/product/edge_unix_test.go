//go:build unix

package product

import (
	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// mapCliff maps whole pages of at least n bytes, and behind them a page that
// nobody may touch.
func mapCliff(n int) (mem []byte, unmap func() error, err error) {
	page := unix.Getpagesize()
	size := work.CeilDiv(n, page) * page
	all, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	return all[:size:size], func() error { return unix.Munmap(all) }, unix.Mprotect(all[size:], unix.PROT_NONE)
}
