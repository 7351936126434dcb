package console

import (
	"io"
	"sync"
)

// Stream is standard output or standard error. Its first failed write is its
// last: later ones write nothing and return the same error. All methods are
// safe for concurrent use.
type Stream struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

// NewStream prints to w.
func NewStream(w io.Writer) *Stream { return &Stream{to: w} }

// Write prints b, unless an earlier write failed.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.to.Write(b)
	s.err = err
	return n, err
}

// Err is the error of the write that failed, nil where none did. What was
// printed is then incomplete.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// unwrap is the writer below.
func (s *Stream) unwrap() io.Writer { return s.to }
