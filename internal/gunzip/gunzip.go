// Package gunzip unpacks gzip files of one or several members, and tells a file that is cut
// off from one with other bytes behind its end.
package gunzip

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
)

// ErrBehind is about bytes behind the last member that are neither a member nor zeros.
var ErrBehind = errors.New("other bytes follow the end of the compressed data")

// Reader reads what a gzip file unpacks to. Of a file that is cut off, the error is
// io.ErrUnexpectedEOF.
type Reader struct {
	packed *bufio.Reader
	member *gzip.Reader
	ended  error // of the whole file
}

// NewReader begins to read.
func NewReader(r io.Reader) (*Reader, error) {
	b := bufio.NewReader(r)
	z, err := gzip.NewReader(b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &Reader{packed: b, member: z}, nil
}

// Read reads on, over the ends of members.
func (r *Reader) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 {
		if r.ended != nil {
			return 0, r.ended
		}
		if n, err = r.member.Read(p); err == io.EOF {
			r.ended = r.next()
			err = nil
		}
	}
	return n, err
}

// next goes to the next member. io.EOF says that there is none.
func (r *Reader) next() error {
	head, err := r.packed.Peek(2)
	switch {
	case len(head) == 2 && string(head) == "\x1f\x8b":
		err = r.member.Reset(r.packed)
		r.member.Multistream(false)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	case len(head) > 0:
		return r.padding()
	}
	return err
}

// padding reads to the end of the file: zeros may be behind the last member.
func (r *Reader) padding() error {
	for {
		b, err := r.packed.ReadByte()
		switch {
		case err != nil:
			return err
		case b != 0:
			return ErrBehind
		}
	}
}

// Close frees nothing: it makes the Reader an io.Closer.
func (r *Reader) Close() error { return nil }
