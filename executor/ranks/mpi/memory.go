package mpi

import "unsafe"

// memory is what MPI writes to, beside messages. It is no memory of Go's: a stack may move while MPI has an address.
type memory struct {
	ints   [4]int32
	status [64]byte // never read: its layout is another in each ABI
	text   [8192]byte
}

// requests are those of so many messages, also in memory that is none of Go's. There are as many as messages are
// ever under way at once: if one waited for others to end, and those for a message of another rank that waits, too, no
// rank would go on.
type requests [512]uint64

// address is where a value is that does not move.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
