package shape

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// DType is the type of a tensor's elements. Devices compute on Float32 and
// Int32. They keep BFloat16, the upper half of a Float32, and [Int8Block] as
// storage ([DType.Stored]): an op widens it before others read it. The others exist
// on the host, in files.
type DType uint8

// The element types. The zero DType is invalid.
const (
	Invalid DType = iota
	Float32
	Float64
	Int32
	Int64
	Uint8
	BFloat16

	// Int8Block is int8 with a scale for each block of [BlockElems] consecutive elements
	// of a row, the last axis. A row's last block may be shorter. A block is its scale, a
	// little-endian bfloat16, and behind it its elements, a byte each: an element's number
	// is scale times int8. Rows follow each other without gaps.
	Int8Block
)

// BlockElems is the elements of a block of [Int8Block], and BlockBytes the bytes of one:
// 1.0625 for each element.
const (
	BlockElems = 32
	BlockBytes = 2 + BlockElems
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid:  {"invalid", 0},
	Float32:  {"f32", 4},
	Float64:  {"f64", 8},
	Int32:    {"i32", 4},
	Int64:    {"i64", 8},
	Uint8:    {"u8", 1},
	BFloat16: {"bf16", 2},

	Int8Block: {"i8b", 1},
}

// Stored reports whether devices keep elements of this type, and compute with what an op
// widens them to.
func (d DType) Stored() bool { return d == BFloat16 || d == Int8Block }

// Size is the bytes of one element, 0 for an invalid type. Those of [Int8Block] are
// without the scales, which [Meta.Bytes] counts.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// String is the short name used in dumps: f32, i32.
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Shape lists a tensor's dimensions, outermost first; row-major, contiguous.
// An empty Shape is a scalar.
type Shape []int

// Of makes a Shape.
func Of(dims ...int) Shape { return Shape(dims) }

// Rank is the number of dimensions.
func (s Shape) Rank() int { return len(s) }

// Elems is the number of elements: 1 for a scalar, 0 when a dimension is 0.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

// Dim is dimension i, counted from the end when negative.
func (s Shape) Dim(i int) int {
	if i < 0 {
		i += len(s)
	}
	return s[i]
}

// Equal reports whether both have the same dimensions.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// Clone copies s, so that the copy can be changed.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// Strides are the row-major element strides of s.
func (s Shape) Strides() []int {
	st := make([]int, len(s))
	n := 1
	for i := len(s) - 1; i >= 0; i-- {
		st[i] = n
		n *= s[i]
	}
	return st
}

// String is "[64,128]", "[]" for a scalar.
func (s Shape) String() string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}

// Validate reports a negative dimension, or a product that does not fit an int.
func (s Shape) Validate() error {
	n := 1
	for _, d := range s {
		if d < 0 {
			return fmt.Errorf("shape %v has a negative dimension", s)
		}
		if d > 0 && n > math.MaxInt/8/d {
			return fmt.Errorf("shape %v has too many elements", s)
		}
		n *= d
	}
	return nil
}

// Broadcast is the shape that a and b both stretch to under NumPy's rule:
// aligned at the last dimension, a dimension of 1 stretches.
func Broadcast(a, b Shape) (Shape, error) {
	out := make(Shape, max(len(a), len(b)))
	for i := 1; i <= len(out); i++ {
		da, db := 1, 1
		if i <= len(a) {
			da = a[len(a)-i]
		}
		if i <= len(b) {
			db = b[len(b)-i]
		}
		switch {
		case da == db, db == 1:
			out[len(out)-i] = da
		case da == 1:
			out[len(out)-i] = db
		default:
			return nil, fmt.Errorf("shapes %v and %v do not broadcast: %d against %d", a, b, da, db)
		}
	}
	return out, nil
}

// Meta is a tensor's metadata: element type and dimensions.
type Meta struct {
	DType DType
	Shape Shape
}

// F32 is the metadata of a float32 tensor.
func F32(dims ...int) Meta { return Meta{Float32, Shape(dims)} }

// I32 is the metadata of an int32 tensor.
func I32(dims ...int) Meta { return Meta{Int32, Shape(dims)} }

// Elems is the number of elements.
func (m Meta) Elems() int { return m.Shape.Elems() }

// Bytes is the size of the contents.
func (m Meta) Bytes() int64 {
	if m.DType == Int8Block {
		rows, width := m.Rows()
		return int64(rows) * int64(BlocksBytes(width))
	}
	return int64(m.Shape.Elems()) * int64(m.DType.Size())
}

// Rows are the number and the width of the rows along the last axis; one of a scalar.
func (m Meta) Rows() (rows, width int) {
	if m.Shape.Rank() == 0 {
		return 1, 1
	}
	last := m.Shape.Rank() - 1
	return m.Shape[:last].Elems(), m.Shape[last]
}

// BlocksBytes is the bytes of a row of that many elements of [Int8Block].
func BlocksBytes(width int) int { return width + 2*((width+BlockElems-1)/BlockElems) }

// Equal reports whether type and dimensions agree.
func (m Meta) Equal(o Meta) bool { return m.DType == o.DType && m.Shape.Equal(o.Shape) }

// BF16 is the metadata of a bfloat16 tensor.
func BF16(dims ...int) Meta { return Meta{BFloat16, Shape(dims)} }

// I8Block is the metadata of a tensor of int8 by block.
func I8Block(dims ...int) Meta { return Meta{Int8Block, Shape(dims)} }

// String is "f32[64,128]".
func (m Meta) String() string { return m.DType.String() + m.Shape.String() }
