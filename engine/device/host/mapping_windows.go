package host

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// reservePages takes addresses alone: backPages makes them memory.
func reservePages(n int) ([]byte, error) {
	at, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n), nil
}

// backPages makes the pages of a block memory that may be touched, and reports
// whether the system had that much. Pages that are memory already stay as they
// are.
func backPages(mem []byte, off, size int64) bool {
	if size == 0 {
		return true
	}
	_, err := windows.VirtualAlloc(address(mem[off:]), uintptr(size), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err == nil
}

// unmap gives a mapping back.
func unmap(mem []byte) error { return windows.VirtualFree(address(mem), 0, windows.MEM_RELEASE) }

// address is the address of mem's first byte.
func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(&mem[0])) }

// adviseHuge does nothing: Windows gives large pages only to accounts with the
// right to lock memory.
func adviseHuge([]byte) {}
