package mpi

import "unsafe"

// mostRequests is the most messages that are under way at once; others wait.
const mostRequests = 512

// memory is what MPI writes to, beside messages. It is no memory of Go's: a stack may move while MPI has an address.
type memory struct {
	ints     [4]int32
	status   [64]byte // never read: its layout is another in each ABI
	text     [8192]byte
	requests [mostRequests]uint64
}

// address is where a value is that does not move.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
