package streams

// Memory is a device's memory, by offset; all numbers are in bytes. The goroutines
// of streams call it, and none for a range that another one is writing.
type Memory interface {
	// Back makes a range usable, and reports whether the system has the memory.
	Back(off, size int64) bool
	// CopyIn copies src to the memory at off. It returns once that has ended, as do
	// the other copies.
	CopyIn(off int64, src []byte) error
	// CopyOut copies the memory at off to dst.
	CopyOut(dst []byte, off int64) error
	// Move copies within the memory. The two ranges may overlap.
	Move(to, from, size int64) error
	// CopyFrom copies from the memory of another device of the kind.
	CopyFrom(to int64, other Memory, from, size int64) error
	// Close gives the memory back.
	Close() error
}

// HostMemory is the host memory from which a device copies fastest.
type HostMemory interface {
	// Map takes at least n bytes, page-aligned and zeroed.
	Map(n int64) ([]byte, error)
	// Unmap gives back all that Map gave.
	Unmap(mapped []byte) error
}
