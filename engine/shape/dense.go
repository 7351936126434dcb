package shape

import (
	"fmt"
	"unsafe"

	"gorgonia.org/tensor"
)

// Bytes views a numeric slice as its little-endian bytes, without copying.
func Bytes[T float32 | float64 | int32 | int64 | uint8](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(z)))
}

// View views bytes as a numeric slice, without copying. The bytes must be
// aligned for T, as every buffer of this runtime is; a remainder shorter than
// one element is cut off.
func View[T float32 | float64 | int32 | int64 | uint8](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// NewDense makes a zeroed host tensor of the given metadata.
func NewDense(m Meta) (*tensor.Dense, error) {
	if err := m.Shape.Validate(); err != nil {
		return nil, err
	}
	n := m.Elems()
	switch m.DType {
	case Float32:
		return wrap(m, make([]float32, n)), nil
	case Float64:
		return wrap(m, make([]float64, n)), nil
	case Int32:
		return wrap(m, make([]int32, n)), nil
	case Int64:
		return wrap(m, make([]int64, n)), nil
	case Uint8:
		return wrap(m, make([]uint8, n)), nil
	}
	return nil, fmt.Errorf("no host tensor of element type %v", m.DType)
}

// wrap backs a Dense by data. gorgonia has no empty tensor: a shape without
// elements keeps one hidden element behind it.
func wrap[T float32 | float64 | int32 | int64 | uint8](m Meta, data []T) *tensor.Dense {
	if len(data) == 0 {
		data = make([]T, 1)
		return tensor.New(tensor.WithShape(1), tensor.WithBacking(data))
	}
	if m.Shape.Rank() == 0 {
		return tensor.New(tensor.WithShape(1), tensor.WithBacking(data))
	}
	return tensor.New(tensor.WithShape(m.Shape...), tensor.WithBacking(data))
}

// FromDense is the metadata of a host tensor and a view of its bytes. It
// refuses what is not a contiguous, row-major tensor in Go memory, because
// the view would then be of something else.
func FromDense(t *tensor.Dense) (Meta, []byte, error) {
	if t == nil {
		return Meta{}, nil, fmt.Errorf("host tensor is nil")
	}
	if !t.IsNativelyAccessible() || t.IsManuallyManaged() {
		return Meta{}, nil, fmt.Errorf("tensor %v is not in Go memory: copy it to the host first", t.Shape())
	}
	if t.RequiresIterator() || !t.DataOrder().IsRowMajor() || !t.DataOrder().IsContiguous() {
		return Meta{}, nil, fmt.Errorf("tensor %v is not contiguous and row-major: Materialize it first", t.Shape())
	}
	m := Meta{Shape: Shape(t.Shape().Clone())}
	switch d := t.Data().(type) {
	case []float32:
		m.DType = Float32
		return m, Bytes(d), nil
	case []float64:
		m.DType = Float64
		return m, Bytes(d), nil
	case []int32:
		m.DType = Int32
		return m, Bytes(d), nil
	case []int64:
		m.DType = Int64
		return m, Bytes(d), nil
	case []uint8:
		m.DType = Uint8
		return m, Bytes(d), nil
	}
	return Meta{}, nil, fmt.Errorf("no conversion from host tensors of %v", t.Dtype())
}
