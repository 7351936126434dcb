package datasets

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// npyTypes are the element types that are read, by NumPy's names without byte
// order.
var npyTypes = map[string]safetensors.DType{
	"f8": safetensors.F64, "f4": safetensors.F32, "f2": safetensors.F16,
	"i8": safetensors.I64, "i4": safetensors.I32, "i2": safetensors.I16, "i1": safetensors.I8,
	"u4": safetensors.U32, "u2": safetensors.U16, "u1": safetensors.U8, "b1": safetensors.Bool,
}

// maxNpyHeader is the most bytes of a header's text, as in NumPy.
const maxNpyHeader = 10000

func badNpy(format string, args ...any) error {
	return fmt.Errorf("%w: npy: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// parseNpy reads the header of NumPy's array format, versions 1 to 3. The file is
// a magic string, the version, the length of a header, the header as the text of
// a Python dictionary, then the elements.
func parseNpy(in *files.Stream) (*array, error) {
	start, err := in.Head(10)
	if err != nil {
		return nil, err
	}
	if len(start) < 10 || string(start[:6]) != "\x93NUMPY" {
		return nil, badNpy("the file does not begin as numpy.save writes it: copy or save it again")
	}
	length := uint32(binary.LittleEndian.Uint16(start[8:]))
	switch start[6] {
	case 1:
	case 2, 3:
		more, err := in.Head(2)
		if err != nil {
			return nil, err
		}
		if len(more) < 2 {
			return nil, badNpy("the header is cut off: copy or save the file again")
		}
		length = binary.LittleEndian.Uint32(append(start[8:10:10], more...))
	default:
		return nil, badNpy("version %d is unknown: save as version 1, 2 or 3", start[6])
	}
	if length > maxNpyHeader || int64(length) > in.Left {
		return nil, badNpy("the header has %d bytes, but %d follow and the limit is %d: copy or save the file again", length, in.Left, maxNpyHeader)
	}
	text, err := in.Head(int(length))
	if err != nil {
		return nil, err
	}
	if len(text) < int(length) {
		return nil, badNpy("the header is cut off: copy or save the file again")
	}
	h, err := parseNpyHeader(string(text))
	if err != nil {
		return nil, err
	}
	return h.array(in)
}

// npyHeader is the header's dictionary.
type npyHeader struct {
	descr   string // byte order and type: "<f4"
	fortran bool   // column-major
	shape   shape.Shape
}

// array is the array that follows the header.
func (h *npyHeader) array(in *files.Stream) (*array, error) {
	order := h.descr[0]
	if h.descr[1:] == "O" {
		return nil, badNpy("the elements are Python objects: save numbers, with astype(numpy.float32) or astype(numpy.int64)")
	}
	dtype, ok := npyTypes[h.descr[1:]]
	if !ok || !strings.ContainsRune("<>|=", rune(order)) || (order == '|') != (dtype.Size() == 1) {
		return nil, badNpy("elements of type %q are not read: save as float32 or int64", h.descr)
	}
	if h.fortran && len(h.shape) > 1 {
		return nil, badNpy("the array is in Fortran order: save numpy.ascontiguousarray of it")
	}
	if err := h.shape.Validate(); err != nil {
		return nil, badNpy("%v", err)
	}
	a := &array{dtype: dtype, shape: h.shape, bigEndian: order == '>', in: in}
	if err := a.checkSize(); err != nil {
		return nil, err
	}
	return a, nil
}

// parseNpyHeader reads a dictionary as NumPy writes it.
func parseNpyHeader(text string) (*npyHeader, error) {
	s := scanner{strings.TrimRight(text, " \n")}
	h := &npyHeader{}
	seen := map[string]bool{}
	s.expect("{")
	for !s.take("}") {
		key := s.quoted()
		s.expect(":")
		switch key {
		case "descr":
			if s.take("[") {
				return nil, badNpy("the elements are structs: save one field of them as an array of float32 or int64")
			}
			h.descr = s.quoted()
		case "fortran_order":
			if h.fortran = s.take("True"); !h.fortran {
				s.expect("False")
			}
		case "shape":
			h.shape = s.tuple()
		default:
			return nil, badNpy("header %.80q: key %q is unknown or a value is malformed", text, key)
		}
		if s.failed() || seen[key] {
			return nil, badNpy("header %.80q: the value of %q is malformed or repeated", text, key)
		}
		seen[key] = true
		if !s.take(",") {
			s.expect("}")
			break
		}
	}
	if s.failed() || s.rest != "" || len(seen) != 3 || len(h.descr) < 2 {
		return nil, badNpy("header %.80q is not a dictionary of descr, fortran_order and shape", text)
	}
	return h, nil
}

// scanner reads tokens of a Python literal. After a failure every call fails.
type scanner struct{ rest string }

// scanFailed is the rest after a failure; no token begins with it.
const scanFailed = "\x00"

func (s *scanner) failed() bool { return s.rest == scanFailed }
func (s *scanner) fail()        { s.rest = scanFailed }

// take reads a token and the spaces around it, if it comes next.
func (s *scanner) take(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(s.rest, " "), token)
	if ok {
		s.rest = strings.TrimLeft(rest, " ")
	}
	return ok
}

// expect takes a token that must come next.
func (s *scanner) expect(token string) {
	if !s.take(token) {
		s.fail()
	}
}

// quoted reads a string without escapes.
func (s *scanner) quoted() string {
	for _, q := range []string{"'", `"`} {
		if !s.take(q) {
			continue
		}
		text, rest, ok := strings.Cut(s.rest, q)
		if !ok || strings.Contains(text, `\`) {
			break
		}
		s.rest = strings.TrimLeft(rest, " ")
		return text
	}
	s.fail()
	return ""
}

// tuple reads (), (3,) or (3, 4).
func (s *scanner) tuple() shape.Shape {
	dims := shape.Shape{}
	s.expect("(")
	for !s.take(")") && !s.failed() {
		end := strings.IndexFunc(s.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 1 {
			s.fail()
			break
		}
		v, err := strconv.ParseInt(s.rest[:end], 10, 64)
		if err != nil || v > math.MaxInt/8 {
			s.fail()
			break
		}
		dims, s.rest = append(dims, int(v)), s.rest[end:]
		if !s.take(",") {
			s.expect(")")
			break
		}
	}
	return dims
}

// openNpz opens one array of a zip archive of .npy files.
func openNpz(ctx context.Context, path, name string) (*array, error) {
	f, size, err := files.OpenPlain(path)
	if err != nil {
		return nil, err
	}
	a, err := parseNpz(ctx, f, size, name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	member := a.in.Closer
	a.in.Closer = func() error { return errors.Join(member(), f.Close()) }
	return a, nil
}

// parseNpz is openNpz for an archive of size bytes, which r reads.
func parseNpz(ctx context.Context, r io.ReaderAt, size int64, name string) (*array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: npz: the archive is cut off or damaged (%v): copy or download it again", ErrFormat, err)
	}
	var names []string
	for _, f := range z.File {
		if f.Name != name+".npy" {
			names = append(names, strings.TrimSuffix(f.Name, ".npy"))
			continue
		}
		in, err := unzip(ctx, f, size)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		a, err := parseNpy(in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", f.Name, err), in.Close())
		}
		return a, nil
	}
	return nil, fmt.Errorf("%w: npz: there is no array %q among %s: set the name of one", ErrFormat, name, few(names))
}

// unzip reads a file in an archive of size bytes, up to the UnpackLimit of that
// size. The length that the archive gives for the file is not trusted.
func unzip(ctx context.Context, f *zip.File, size int64) (*files.Stream, error) {
	r, err := f.Open()
	if err = files.UnpackError(err); err != nil && !errors.Is(err, ErrFormat) {
		err = fmt.Errorf("%w: the archive is damaged (%v): copy or download it again", ErrFormat, err)
	}
	if err != nil {
		return nil, err
	}
	return files.Unpacked(&files.ContextReader{Context: ctx, Reader: r}, size, r.Close), nil
}
