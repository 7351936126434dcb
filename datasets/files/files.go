package files

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
	"strings"

	"github.com/berth-ml/berth/datasets/fault"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/gunzip"
)

// Limits on unpacking: UnpackFactor times the packed size, or UnpackFloor bytes
// if that is more. Deflate reaches a factor of 1032 on zeros; real data stays far
// below the limit.
const (
	UnpackFactor = 64
	UnpackFloor  = 16 << 20
)

// UnpackLimit is the limit in bytes on the unpacked size of that many packed bytes.
func UnpackLimit(packed int64) int64 { return max(packed*UnpackFactor, UnpackFloor) }

// Stream reads the contents of a file. It unpacks a packed file.
type Stream struct {
	io.Reader
	Closer func() error // nil: nothing is to be closed
	Left   int64        // bytes that Head has not read yet; of a packed file, the most that there may be
	Packed bool
}

// Close closes the file.
func (s *Stream) Close() error {
	if s.Closer == nil {
		return nil
	}
	return s.Closer()
}

// Head reads the next n bytes, or all up to the end if they are fewer.
func (s *Stream) Head(n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := io.ReadFull(s, b)
	if s.Left -= int64(n); err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b[:n], err
}

// Open opens a regular file. Reading fails once ctx is done, and once a
// packed file exceeds its UnpackLimit.
func Open(ctx context.Context, path string) (*Stream, error) {
	f, size, err := OpenPlain(path)
	if err != nil {
		return nil, err
	}
	s, err := NewStream(ctx, path, f, size)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.Closer = f.Close
	return s, nil
}

// OpenPlain opens a regular file of size bytes.
func OpenPlain(path string) (f *os.File, size int64, err error) {
	f, err = osfile.Open(path, os.O_RDONLY)
	if errors.Is(err, osfile.ErrNotFile) {
		return nil, 0, NotFile(path)
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

// NotFile is the error about a pipe, a device or a socket.
func NotFile(path string) error {
	return fmt.Errorf("%w: %s is not a file: give the path of one", fault.ErrFormat, path)
}

// NewStream is the stream of a file of size bytes, which r reads.
func NewStream(ctx context.Context, name string, r io.Reader, size int64) (*Stream, error) {
	b := bufio.NewReaderSize(&ContextReader{Context: ctx, Reader: r}, 1<<16)
	magic, _ := b.Peek(4)
	var unpacked io.Reader
	var err error
	switch {
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		unpacked, err = gunzip.NewReader(b)
	case isZstd(magic):
		unpacked, err = newZstd(b)
	default:
		return &Stream{Reader: b, Left: size}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, UnpackError(err))
	}
	return Unpacked(unpacked, size, nil), nil
}

// ContextReader fails once its context is done.
type ContextReader struct {
	Context context.Context
	Reader  io.Reader
}

func (c *ContextReader) Read(p []byte) (int, error) {
	if c.Context.Err() != nil {
		return 0, context.Cause(c.Context)
	}
	return c.Reader.Read(p)
}

// Unpacked reads what r unpacks from a file of that many packed bytes, up to their UnpackLimit,
// and closes with c.
func Unpacked(r io.Reader, packed int64, c func() error) *Stream {
	limit := UnpackLimit(packed)
	return &Stream{Reader: &limitReader{r, limit}, Closer: c, Left: limit, Packed: true}
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
		return 0, ErrUnpacksTooFar
	}
	return n, UnpackError(err)
}

// ErrUnpacksTooFar is the error of a packed file beyond its UnpackLimit.
var ErrUnpacksTooFar = fmt.Errorf("%w: it unpacks to more than %d times its size: unpack it first", fault.ErrFormat, UnpackFactor)

// UnpackError says what to do about an error of unpacking.
func UnpackError(err error) error {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the packed file is cut off: copy or download it again", fault.ErrFormat)
	case errors.Is(err, gunzip.ErrBehind):
		return fmt.Errorf("%w: the packed file is damaged: %w: copy or download it again", fault.ErrFormat, err)
	case errors.As(err, &corrupt), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrChecksum):
		return fmt.Errorf("%w: the packed file is damaged (%v): copy or download it again", fault.ErrFormat, err)
	case errors.Is(err, zip.ErrAlgorithm):
		return fmt.Errorf("%w: the file is packed in a way that is not read: unpack it first", fault.ErrFormat)
	}
	return err
}
