package safetensors

import (
	"github.com/berth-ml/berth/engine/shape"
)

// DType is an element type, as the format names it. The format has more of them
// than the runtime: [File.Float32] and [File.Int32] convert.
type DType string

// The element types of the format whose elements are whole bytes.
const (
	Bool DType = "BOOL"
	U8   DType = "U8"
	I8   DType = "I8"
	U16  DType = "U16"
	I16  DType = "I16"
	F16  DType = "F16"
	BF16 DType = "BF16"
	U32  DType = "U32"
	I32  DType = "I32"
	F32  DType = "F32"
	U64  DType = "U64"
	I64  DType = "I64"
	F64  DType = "F64"
)

// Size is the size of an element in bytes; 0 for an unknown type.
func (d DType) Size() int {
	switch d {
	case Bool, U8, I8, "F8_E4M3", "F8_E5M2":
		return 1
	case U16, I16, F16, BF16:
		return 2
	case U32, I32, F32:
		return 4
	case U64, I64, F64:
		return 8
	}
	return 0
}

// Float reports whether d is a floating-point type.
func (d DType) Float() bool { return d == F16 || d == BF16 || d == F32 || d == F64 }

// FromShape is the format's name for an element type of the runtime; "" for an
// invalid one.
func FromShape(d shape.DType) DType {
	switch d {
	case shape.Float32:
		return F32
	case shape.Float64:
		return F64
	case shape.Int32:
		return I32
	case shape.Int64:
		return I64
	case shape.Uint8:
		return U8
	}
	return ""
}
