package device

// PagedBuffer is a HostBuffer whose bytes are not all in the process's memory at
// once, such as a part of a file. A device that copies from or to it evicts what
// it has copied.
type PagedBuffer interface {
	HostBuffer
	// Evict takes n bytes from an offset on out of the process's memory. Their
	// contents stay, and come back when they are touched.
	Evict(off, n int64)
}
