package safetensors

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/osfile"
)

// File is an open safetensors file, or several that an index joins. Its methods are
// safe for concurrent use. They read contents from the file each time.
type File struct {
	parts    []part
	tensors  []Tensor
	index    map[string]int
	metadata map[string]string
}

// part is one file.
type part struct {
	path   string // "": it has none
	r      io.ReaderAt
	closer io.Closer // nil: it is the caller's
	data   int64     // offset of the data, behind the header
}

// openPlain is Open for a single file.
func openPlain(ctx context.Context, path string) (*File, error) {
	f, err := osfile.Open(path, os.O_RDONLY)
	if errors.Is(err, osfile.ErrNotFile) {
		return nil, fmt.Errorf("%s: %w", path, bad("not a file: give the path of one"))
	}
	if err != nil {
		return nil, err
	}
	var file *File
	if unpackerOf(f) != nil {
		err = bad("the file is compressed, but must be read out of order here: decompress it first")
	} else {
		file, err = readSized(ctx, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	file.parts[0].path, file.parts[0].closer = path, f
	return file, nil
}

// readSized is Read for an open file.
func readSized(ctx context.Context, f *os.File) (*File, error) {
	u, err := newUnchanged(f)
	if err != nil {
		return nil, err
	}
	return Read(ctx, u, u.size)
}

// Read reads and validates the header of a file of size bytes behind r, which
// must stay readable while the File is used. ctx ends it.
func Read(ctx context.Context, r io.ReaderAt, size int64) (*File, error) {
	if size < lengthBytes {
		return nil, bad("%d bytes are too few for a header: copy or save the file again", size)
	}
	var length [lengthBytes]byte
	if err := readAt(r, length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-lengthBytes {
		return nil, bad("it states a header of %d bytes, but the file has %d and the format allows %d: it is another kind of file, or cut off: copy or save it again", n, size, maxHeader)
	}
	header := make([]byte, n)
	if err := readAt(r, header, lengthBytes); err != nil {
		return nil, err
	}
	p := part{r: r, data: lengthBytes + int64(n)}
	tensors, metadata, err := parseHeader(ctx, header, size-p.data)
	if err != nil {
		return nil, err
	}
	return newFile([]part{p}, tensors, metadata), nil
}

func newFile(parts []part, tensors []Tensor, metadata map[string]string) *File {
	f := &File{parts: parts, tensors: tensors, index: map[string]int{}, metadata: metadata}
	slices.SortFunc(tensors, func(a, b Tensor) int { return cmp.Compare(a.Name, b.Name) })
	for i, t := range tensors {
		f.index[t.Name] = i
	}
	return f
}

// Close closes what Open opened.
func (f *File) Close() error {
	var errs []error
	for _, p := range f.parts {
		if p.closer != nil {
			errs = append(errs, p.closer.Close())
		}
	}
	return errors.Join(errs...)
}

// Tensors lists the tensors in bytewise name order. The caller must not change
// the slice.
func (f *File) Tensors() []Tensor { return f.tensors }

// Metadata is the file's free-form metadata; nil if it has none. The caller
// must not change it.
func (f *File) Metadata() map[string]string { return f.metadata }

// Lookup finds a tensor by name. It fails with ErrNotFound.
func (f *File) Lookup(name string) (Tensor, error) {
	i, ok := f.index[name]
	if !ok {
		return Tensor{}, fmt.Errorf("%w: %q is not among the file's %d tensors%s", ErrNotFound, name, len(f.tensors), f.some())
	}
	return f.tensors[i], nil
}

// some names a few of the tensors, as a hint in an error.
func (f *File) some() string {
	if len(f.tensors) == 0 {
		return ""
	}
	names := make([]string, 0, 8)
	for _, t := range f.tensors[:min(len(f.tensors), cap(names))] {
		names = append(names, t.Name)
	}
	s := ": " + strings.Join(names, ", ")
	if len(f.tensors) > len(names) {
		s += ", …"
	}
	return s
}

// Read reads a tensor's bytes as they are in the file. dst must have exactly as
// many.
func (f *File) Read(name string, dst []byte) error {
	t, err := f.Lookup(name)
	if err != nil {
		return err
	}
	if int64(len(dst)) != t.Bytes() {
		return fmt.Errorf("tensor %v has %d bytes, the destination %d", t, t.Bytes(), len(dst))
	}
	return f.named(t, f.readTensor(t, dst, 0))
}

// named is an error about a tensor with the path of the file that has it.
func (f *File) named(t Tensor, err error) error {
	path := f.parts[t.part].path
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Reader reads a tensor's bytes as they are in the file, from the first on. It
// is valid until Close.
func (f *File) Reader(name string) (io.Reader, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	p := &f.parts[t.part]
	return io.NewSectionReader(p.r, p.data+t.begin, t.Bytes()), nil
}

// readTensor fills dst with a tensor's contents, from byte at on.
func (f *File) readTensor(t Tensor, dst []byte, at int64) error {
	p := &f.parts[t.part]
	if err := readAt(p.r, dst, p.data+t.begin+at); err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return nil
}

// readAt fills dst. If the file ends before, the error is ErrFormat.
func readAt(r io.ReaderAt, dst []byte, at int64) error {
	n, err := r.ReadAt(dst, at)
	if n == len(dst) && err == io.EOF {
		return nil
	}
	if err == io.EOF {
		return bad("the file ends at byte %d, %d more expected: copy or save it again", at+int64(n), len(dst)-n)
	}
	return err
}
