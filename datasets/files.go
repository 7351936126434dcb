package datasets

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/gunzip"
	"github.com/berth-ml/berth/internal/units"
)

// Limits on unpacking: unpackFactor times the packed size, or unpackFloor bytes
// if that is more. Deflate reaches a factor of 1032 on zeros; real data stays far
// below the limit.
const (
	unpackFactor = 64
	unpackFloor  = 16 << 20
)

// unpackLimit is the limit in bytes on the unpacked size of that many packed bytes.
func unpackLimit(packed int64) int64 { return max(packed*unpackFactor, unpackFloor) }

// stream reads the contents of a file. It unpacks a gzip file.
type stream struct {
	io.Reader
	close  func() error // nil: nothing is to be closed
	left   int64        // bytes that head has not read yet; of a packed file, the most that there may be
	packed bool
}

func (s *stream) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// head reads the next n bytes, or all up to the end if they are fewer.
func (s *stream) head(n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := io.ReadFull(s, b)
	if s.left -= int64(n); err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

// openStream opens a regular file. Reading fails once ctx is done, and once a
// packed file exceeds its unpackLimit.
func openStream(ctx context.Context, path string) (*stream, error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s, err := newStream(ctx, path, f, size)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.close = f.Close
	return s, nil
}

// openFile opens a regular file of size bytes.
func openFile(path string) (f *os.File, size int64, err error) {
	f, err = osfile.Open(path, os.O_RDONLY)
	if errors.Is(err, osfile.ErrNotFile) {
		return nil, 0, notFile(path)
	}
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, st.Size(), nil
}

// notFile is the error about a pipe, a device or a socket.
func notFile(path string) error {
	return fmt.Errorf("%w: %s is not a file: give the path of one", ErrFormat, path)
}

// newStream is the stream of a file of size bytes, which r reads.
func newStream(ctx context.Context, name string, r io.Reader, size int64) (*stream, error) {
	b := bufio.NewReaderSize(&contextReader{ctx, r}, 1<<16)
	if magic, _ := b.Peek(2); string(magic) != "\x1f\x8b" {
		return &stream{Reader: b, left: size}, nil
	}
	z, err := gunzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, unpackError(err))
	}
	limit := unpackLimit(size)
	return &stream{Reader: &limitReader{z, limit}, left: limit, packed: true}, nil
}

// fits refuses a file whose samples take more bytes of memory than there are.
func fits(path string, need, memory int64) error {
	if memory <= 0 || need <= memory {
		return nil
	}
	take, free := units.TwoBytes(need, memory)
	if memory == 1 { // which stands for none
		free = "none"
	}
	return fmt.Errorf("%w: the samples of %s take %s of memory, and %s is free: train on a part of the file, or give the process more memory", ErrMemory, path, take, free)
}

// contextReader fails once its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}

// limitReader reads unpacked bytes. It fails after left of them: what it has read
// is incomplete.
type limitReader struct {
	r    io.Reader
	left int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errUnpacksTooFar
	}
	return n, unpackError(err)
}

// errUnpacksTooFar is the error of a packed file beyond its unpackLimit.
var errUnpacksTooFar = fmt.Errorf("%w: it unpacks to more than %d times its size: unpack it first", ErrFormat, unpackFactor)

// unpackError says what to do about an error of unpacking.
func unpackError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the packed file is cut off: copy or download it again", ErrFormat)
	case errors.Is(err, gunzip.ErrBehind):
		return fmt.Errorf("%w: the packed file is damaged: %w: copy or download it again", ErrFormat, err)
	case errors.As(err, &corrupt), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrChecksum):
		return fmt.Errorf("%w: the packed file is damaged (%v): copy or download it again", ErrFormat, err)
	case errors.Is(err, zip.ErrAlgorithm):
		return fmt.Errorf("%w: the file is packed in a way that is not read: unpack it first", ErrFormat)
	}
	return err
}
