package residency

import "context"

// Store holds contents of tensors that are resident nowhere. Read fills dst
// with all bytes of the named one; any order, and from any goroutine.
type Store interface {
	Read(name string, dst []byte) error
}

// Sequence is a store that can only be read from front to back, such as a
// compressed file. It is used by one goroutine at a time.
type Sequence interface {
	// Next moves to the next entry and tells its name and size; io.EOF ends. ctx
	// ends passing over the one before, which may be long.
	Next(ctx context.Context) (name string, bytes int64, err error)
	// Read fills dst with the contents of the entry that Next told of. Without
	// it, Next passes over them.
	Read(dst []byte) error
	// Rewind goes back to before the first entry.
	Rewind() error
}

// source is the store entry that a tensor streams from. Either store or seq is
// set.
type source struct {
	name  string
	store Store
	seq   *sequence
}

// sequence is a Sequence with the tensors that stream from it.
type sequence struct {
	turn    chan struct{} // has a value while nobody reads
	s       Sequence
	tensors map[string]*Tensor // by the names of their entries; it does not change
}

// newSequence makes a sequence that nobody reads.
func newSequence(s Sequence, ts map[string]*Tensor) *sequence {
	q := &sequence{turn: make(chan struct{}, 1), s: s, tensors: ts}
	q.turn <- struct{}{}
	return q
}

// begin waits until nobody else reads.
func (q *sequence) begin(ctx context.Context) error {
	select {
	case <-q.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end lets others read.
func (q *sequence) end() { q.turn <- struct{}{} }
