//go:build unix && !linux

package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const noReserve = 0 // memory that is not touched is not counted

// discard gives whole pages back, by mapping others in their place: advice
// alone keeps their contents here. They read as zeros when next touched.
func discard(pages []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&pages[0]), uintptr(len(pages)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err
}

// adviseHuge does nothing: the system makes large pages by itself.
func adviseHuge([]byte) {}
