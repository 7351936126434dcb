package safetensors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/gunzip"
)

// Stream is a compressed safetensors file, which can only be read from front to
// back. One goroutine at a time uses it.
type Stream struct {
	path    string
	file    *unchanged
	unpack  unpacker
	r       io.ReadCloser // the unpacked file, from the current place on; nil before a Rewind that failed
	data    int64         // offset of the data, behind the header
	tensors []Tensor      // in the order of their contents
	next    int           // number of the tensor that Next moves to
	at      int64         // bytes of data unpacked since the front
	read    int64         // bytes unpacked since OpenStream, over all passes
}

// OpenStream reads and validates the header of the compressed file at path, which
// ctx ends. The caller must Close the stream.
func OpenStream(ctx context.Context, path string) (*Stream, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	u, err := newUnchanged(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s := &Stream{path: path, file: u, unpack: unpackerOf(f)}
	if s.unpack == nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, bad("it is neither a gzip nor a zstd file")), f.Close())
	}
	if err := s.readHeader(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), s.Close())
	}
	return s, nil
}

// readHeader reads the header, from the front.
func (s *Stream) readHeader(ctx context.Context) (err error) {
	if s.r, err = s.unpack(s.file); err != nil {
		return s.broken(err)
	}
	var length [lengthBytes]byte
	if err := s.fill(length[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader {
		return bad("it states a header of %d bytes, but the format allows %d: it is another kind of file", n, maxHeader)
	}
	var header bytes.Buffer // grows with what there is
	for _, bytes := range []int64{min(int64(n), 1), max(0, int64(n)-1)} {
		if _, err := io.CopyN(&header, s.r, bytes); err != nil {
			return s.broken(err)
		}
		if err := checkBegin(header.Bytes()); err != nil {
			return err // before the rest takes memory
		}
	}
	s.data = lengthBytes + int64(n)
	s.tensors, _, err = parseHeader(ctx, header.Bytes(), unknownBytes)
	s.at, s.read = 0, s.data
	return err
}

// Tensors lists the tensors in the order of their contents. The caller must not
// change the slice.
func (s *Stream) Tensors() []Tensor { return s.tensors }

// Next moves to the next tensor. io.EOF says that there is none, and that the file
// is whole, also by the checksum of its compression. ctx ends passing over
// contents.
func (s *Stream) Next(ctx context.Context) (Tensor, error) {
	if s.r == nil {
		return Tensor{}, fmt.Errorf("%s: %w", s.path, os.ErrClosed)
	}
	if s.next == len(s.tensors) {
		return Tensor{}, s.end(ctx)
	}
	t := s.tensors[s.next]
	if err := s.pass(ctx, t.begin-s.at); err != nil {
		return Tensor{}, fmt.Errorf("%s: %w", s.path, err)
	}
	s.next++
	return t, nil
}

// end passes over the last tensor, and finds the file's end.
func (s *Stream) end(ctx context.Context) error {
	if n := len(s.tensors); n > 0 {
		if err := s.pass(ctx, s.tensors[n-1].end-s.at); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	}
	switch n, err := s.r.Read(make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%s: %w", s.path, bad("more bytes follow the last tensor: copy or save the file again"))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: %w", s.path, bad("its end is missing, or more bytes follow it: copy or save the file again"))
	case err != io.EOF:
		return fmt.Errorf("%s: %w", s.path, s.broken(err))
	}
	return io.EOF
}

// ReadWeights reads the tensor that Next moved to, all of it, as [File.ReadWeights]
// does. It reads each tensor once.
func (s *Stream) ReadWeights(dst []float32) error {
	t := s.tensors[s.next-1]
	if s.at != t.begin {
		panic("BUG: " + t.Name + " is read twice")
	}
	if n := t.Shape.Elems(); len(dst) != n {
		return fmt.Errorf("tensor %v has %d elements, but the destination has %d", t, n, len(dst))
	}
	err := convertInto(func(raw []byte, _ int64) error { return s.fill(raw) }, t, 0, dst, decodeWeights)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, advised(err))
	}
	return nil
}

// Rewind goes back to before the first tensor.
func (s *Stream) Rewind() error {
	s.endPass()
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := s.unpack(s.file)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, s.broken(err))
	}
	s.r, s.next, s.at = r, 0, -s.data
	return s.pass(context.Background(), s.data) // a header, which is short
}

// fill reads the next bytes.
func (s *Stream) fill(dst []byte) error {
	n, err := io.ReadFull(s.r, dst)
	s.at += int64(n)
	s.read += int64(n)
	if err != nil {
		return s.broken(err)
	}
	return nil
}

// pass passes over bytes: a small file can unpack to very many.
func (s *Stream) pass(ctx context.Context, n int64) error {
	const atOnce = 16 << 20
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		passed, err := io.CopyN(io.Discard, s.r, min(n, atOnce))
		s.at += passed
		s.read += passed
		n -= passed
		if err != nil {
			return s.broken(err)
		}
	}
	return nil
}

// broken is the error of unpacking.
func (s *Stream) broken(err error) error {
	var device *fs.PathError
	switch {
	case errors.As(err, &device), errors.Is(err, ErrChanged): // the file may well be good
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return bad("the file ends too early: copy or save it again")
	case errors.Is(err, gunzip.ErrBehind), errors.Is(err, zstd.ErrMagicMismatch):
		return bad("%v: copy or save it again", gunzip.ErrBehind)
	}
	return fmt.Errorf("%w: it cannot be unpacked: %w: copy or save it again", ErrFormat, err)
}

// Close closes the file.
func (s *Stream) Close() error {
	s.endPass()
	return s.file.Close()
}

// endPass frees what unpacks the file. It has no error of its own: one of unpacking
// was reported by the read that met it.
func (s *Stream) endPass() {
	if s.r != nil {
		_ = s.r.Close()
		s.r = nil
	}
}
