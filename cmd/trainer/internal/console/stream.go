package console

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
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

// Err is the error of the first failed write, nil if none failed. After a failed
// write the output is incomplete.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// unwrap is the writer below.
func (s *Stream) unwrap() io.Writer { return s.to }

// FailOnClosedPipe makes a write fail where it goes to a pipe that nobody reads
// any more. Otherwise it would end the process. The caller calls undo.
func FailOnClosedPipe() (undo func()) {
	c := make(chan os.Signal, 1) // never read: the write's error is enough
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
