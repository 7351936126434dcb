//go:build unix

package osfile

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) (contents []byte, unmap func([]byte), err error) {
	contents, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	return contents, func(b []byte) {
		if err := unix.Munmap(b); err != nil {
			panic(fmt.Sprintf("BUG: unmapping our own mapping: %v", err))
		}
	}, err
}

// within reports whether an address is in b.
func within(b []byte, addr uintptr) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= from && addr-from < uintptr(len(b))
}
