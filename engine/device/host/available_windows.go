package host

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// systemMemory is the memory that no program uses, as far as the system may hand
// it out.
func systemMemory() (int64, error) {
	var status struct { // MEMORYSTATUSEX
		length, load                  uint32
		physical, freePhysical        uint64
		commitLimit, freeCommit       uint64
		addresses, freeAddresses, ext uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0, err
	}
	return int64(min(status.freePhysical, status.freeCommit)), nil
}
