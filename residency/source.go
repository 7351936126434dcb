package residency

import "sync"

// Store holds contents of tensors that are resident nowhere. Read fills dst
// with all bytes of the named one; any order, and from any goroutine.
type Store interface {
	Read(name string, dst []byte) error
}

// Sequence is a store that can only be read from front to back, such as a
// network stream. It is used by one goroutine at a time.
type Sequence interface {
	// Next moves to the next tensor and tells its name and size; io.EOF ends.
	Next() (name string, bytes int64, err error)
	// Read fills dst with the contents of the tensor that Next told of. Without
	// it, Next passes over them.
	Read(dst []byte) error
}

// source is the store entry that a tensor streams from. Either store or seq is
// set.
type source struct {
	name  string
	store Store
	seq   Sequence
}

// sequence is a Sequence with the tensors that wait for it.
type sequence struct {
	mu     sync.Mutex // held while reading, never with the manager's
	s      Sequence
	wanted map[string]*Tensor // guarded by the manager's lock
}
