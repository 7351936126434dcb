package console

import (
	"errors"
	"io"
	"io/fs"
)

// BestEffort prints text that may be lost. After the first failed write it prints
// nothing more; every write reports success. One goroutine uses it at a time.
type BestEffort struct {
	to     io.Writer
	failed func(error)
	over   bool
}

// NewBestEffort prints to w, and calls failed with the error of the first failed
// write.
func NewBestEffort(w io.Writer, failed func(error)) *BestEffort {
	if s, ok := w.(*Stream); ok {
		w = s.to // a failed write to s itself would be an error of the command
	}
	return &BestEffort{to: w, failed: failed}
}

// Write prints b, unless an earlier write failed.
func (p *BestEffort) Write(b []byte) (int, error) {
	if p.over {
		return len(b), nil
	}
	if _, err := p.to.Write(b); err != nil {
		p.over = true
		p.failed(err)
	}
	return len(b), nil
}

// Cause is the error of a failed write without the file's name: nobody named
// standard output.
func Cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// unwrap is the writer below.
func (p *BestEffort) unwrap() io.Writer { return p.to }
