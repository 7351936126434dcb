package console

import (
	"errors"
	"io"
	"io/fs"
)

// Progress prints to a writer what may be lost. Its first failed write is its
// last: later ones print nothing, and all report success. One goroutine uses it
// at a time.
type Progress struct {
	to     io.Writer
	failed func(error)
	over   bool
}

// NewProgress prints to w, and calls failed with the error of the first failed
// write.
func NewProgress(w io.Writer, failed func(error)) *Progress {
	if s, ok := w.(*Stream); ok {
		w = s.to // whose failed write is an error of the command
	}
	return &Progress{to: w, failed: failed}
}

// Write prints b, unless an earlier write failed.
func (p *Progress) Write(b []byte) (int, error) {
	if p.over {
		return len(b), nil
	}
	if _, err := p.to.Write(b); err != nil {
		p.over = true
		p.failed(err)
	}
	return len(b), nil
}

// Cause is the error of a failed write without the file's name, which for a
// stream nobody gave.
func Cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// unwrap is the writer below.
func (p *Progress) unwrap() io.Writer { return p.to }
