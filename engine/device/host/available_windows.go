package host

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                  uint32
	physical, freePhysical        uint64
	commitLimit, freeCommit       uint64
	addresses, freeAddresses, ext uint64
}

// askMemory asks the system for the state of its memory.
func askMemory() (status memoryStatus, err error) {
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return memoryStatus{}, err
	}
	return status, nil
}

// systemMemory is the memory that no program uses, as far as the system may hand
// it out.
func systemMemory() (int64, error) {
	status, err := askMemory()
	return int64(min(status.freePhysical, status.freeCommit)), err
}

// machineMemory is the machine's memory.
func machineMemory() (int64, error) {
	status, err := askMemory()
	return int64(status.physical), err
}
