package product

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// mapCliff maps whole pages of at least n bytes, and behind them a page that
// nobody may touch.
func mapCliff(n int) (mem []byte, unmap func() error, err error) {
	page := os.Getpagesize()
	size := work.CeilDiv(n, page) * page
	at, err := windows.VirtualAlloc(0, uintptr(size+page), windows.MEM_RESERVE, windows.PAGE_NOACCESS)
	if err != nil {
		return nil, nil, err
	}
	unmap = func() error { return windows.VirtualFree(at, 0, windows.MEM_RELEASE) }
	_, err = windows.VirtualAlloc(at, uintptr(size), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), unmap, err
}
