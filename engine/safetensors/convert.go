package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/osfile"
)

// chunkElems is how many elements a conversion reads from the file at a time.
const chunkElems = 16 << 10

// Float32 reads a tensor of any element type as float32. F64 is rounded. The error
// ErrConvert names the element, if an integer is not representable or a finite
// number becomes infinite.
func (f *File) Float32(name string) ([]float32, error) {
	return convert(f, name, DecodeFloat32)
}

// ReadWeights is Float32 for elements of a model's weights, from element at on, into
// dst. NaN and infinities are refused with ErrFinite.
func (f *File) ReadWeights(name string, at int, dst []float32) error {
	t, err := f.Lookup(name)
	if err != nil {
		return err
	}
	if n := t.Shape.Elems(); at < 0 || at > n || len(dst) > n-at {
		return fmt.Errorf("tensor %v has %d elements, so %d of them cannot be read from element %d on", t, n, len(dst), at)
	}
	return f.named(t, advised(convertInto(f.readingFrom(t, at), t, at, dst, decodeWeights)))
}

// Int32 reads a tensor of an integer type as int32. The error is ErrConvert if its
// elements are floating-point numbers, or one is out of range.
func (f *File) Int32(name string) ([]int32, error) {
	return convert(f, name, DecodeInt32)
}

func convert[T float32 | int32](f *File, name string, decode func(DType, []byte, []T) error) ([]T, error) {
	t, err := f.Lookup(name)
	if err != nil {
		return nil, err
	}
	out := make([]T, t.Shape.Elems())
	if err := convertInto(f.readingFrom(t, 0), t, 0, out, decode); err != nil {
		return nil, f.named(t, err)
	}
	return out, nil
}

// readingFrom reads a tensor's bytes from byte at behind an element on.
func (f *File) readingFrom(t Tensor, element int) func(raw []byte, at int64) error {
	from := int64(element) * int64(t.DType.Size())
	return func(raw []byte, at int64) error { return f.readTensor(t, raw, from+at) }
}

// convertInto converts elements of a tensor, from element first on, whose bytes read
// gives piece by piece.
func convertInto[T float32 | int32](read func(raw []byte, at int64) error, t Tensor, first int, out []T, decode func(DType, []byte, []T) error) error {
	size := t.DType.Size()
	buf := make([]byte, min(len(out), chunkElems)*size)
	for at := 0; at < len(out); at += chunkElems {
		part := out[at:min(len(out), at+chunkElems)]
		raw := buf[:len(part)*size]
		if err := read(raw, int64(at)*int64(size)); err != nil {
			return err
		}
		if err := decode(t.DType, raw, part); err != nil {
			return fmt.Errorf("tensor %v: %w", t, Later(err, first+at))
		}
	}
	return nil
}

// ElementError says why an element cannot be converted (ErrConvert), or is no weight
// (ErrFinite).
type ElementError struct {
	Element int // counts from the first of the slice that was decoded
	why     string
	cause   error
}

func (e *ElementError) Error() string {
	return fmt.Sprintf("%v: element %d is %s", e.cause, e.Element, e.why)
}

// Unwrap is ErrConvert or ErrFinite.
func (e *ElementError) Unwrap() error { return e.cause }

// Finite refuses NaN and infinities among a model's weights, with an ElementError: the
// model would answer, and train on, with them.
func Finite(weights []float32) error {
	for i, v := range weights {
		if v-v != 0 { // NaN for NaN and for both infinities
			return &ElementError{i, fmt.Sprint(v), ErrFinite}
		}
	}
	return nil
}

// decodeWeights is DecodeFloat32 for weights.
func decodeWeights(d DType, src []byte, dst []float32) error {
	if err := DecodeFloat32(d, src, dst); err != nil {
		return err
	}
	return Finite(dst)
}

// advised says what to do about weights that are not finite.
func advised(err error) error {
	if errors.Is(err, ErrFinite) {
		return osfile.Advise(err, "use weights from before the model diverged")
	}
	return err
}

// Later is the error of decoding elements that follow n others. An ElementError
// then counts from the first of those.
func Later(err error, n int) error {
	var e *ElementError
	if errors.As(err, &e) {
		return &ElementError{n + e.Element, e.why, e.cause}
	}
	return err
}

// maxExactInt is the magnitude up to which every integer is a float32.
const maxExactInt = 1 << 24

// DecodeFloat32 converts little-endian elements of type d. src must hold
// exactly len(dst) of them. It fails with ErrConvert as [File.Float32] says.
func DecodeFloat32(d DType, src []byte, dst []float32) error {
	le := binary.LittleEndian
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = half(le.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(src[2*i:])) << 16)
		}
	case F64:
		for i := range dst {
			v := math.Float64frombits(le.Uint64(src[8*i:]))
			dst[i] = float32(v)
			if math.IsInf(float64(dst[i]), 0) && !math.IsInf(v, 0) {
				return &ElementError{i, fmt.Sprintf("%g, too large for float32", v), ErrConvert}
			}
		}
	default:
		return decodeIntegers(d, src, dst, -maxExactInt, maxExactInt, "which float32 cannot hold exactly")
	}
	return nil
}

// DecodeInt32 converts little-endian elements of integer type d. src must hold
// exactly len(dst) of them. It fails with ErrConvert as [File.Int32] says.
func DecodeInt32(d DType, src []byte, dst []int32) error {
	return decodeIntegers(d, src, dst, math.MinInt32, math.MaxInt32, "out of the range of int32")
}

// decodeIntegers converts integers, and says why not those below least or above
// most.
func decodeIntegers[T float32 | int32](d DType, src []byte, dst []T, least, most int64, why string) error {
	le := binary.LittleEndian
	var at func(i int) int64
	switch d {
	case Bool, U8:
		for i := range dst {
			dst[i] = T(src[i])
		}
		return nil
	case I8:
		for i := range dst {
			dst[i] = T(int8(src[i]))
		}
		return nil
	case U16:
		for i := range dst {
			dst[i] = T(le.Uint16(src[2*i:]))
		}
		return nil
	case I16:
		for i := range dst {
			dst[i] = T(int16(le.Uint16(src[2*i:])))
		}
		return nil
	case U32:
		at = func(i int) int64 { return int64(le.Uint32(src[4*i:])) }
	case I32:
		at = func(i int) int64 { return int64(int32(le.Uint32(src[4*i:]))) }
	case I64:
		at = func(i int) int64 { return int64(le.Uint64(src[8*i:])) }
	case U64: // a number beyond int64 is out of either range anyway
		at = func(i int) int64 { return int64(min(le.Uint64(src[8*i:]), math.MaxInt64)) }
	default:
		return fmt.Errorf("%w: elements of type %s are not read: save as float32 or int64", ErrConvert, d)
	}
	for i := range dst {
		v := at(i)
		if v < least || v > most {
			return &ElementError{i, fmt.Sprintf("%d, %s", v, why), ErrConvert}
		}
		dst[i] = T(v)
	}
	return nil
}

// half widens an IEEE 754 binary16 number.
func half(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero and subnormals: frac * 2^-24
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f: // infinities and NaNs
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}
