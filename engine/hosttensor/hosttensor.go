package hosttensor

import (
	"fmt"
	"slices"
	"unsafe"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/shape"
)

// New makes a zeroed host tensor of the given metadata. A scalar becomes a tensor of one
// element. One without elements has its shape, and Len is 0; gorgonia's Data panics for it,
// Float32s and its like do not.
func New(m shape.Meta) (*tensor.Dense, error) {
	if err := m.Shape.Validate(); err != nil {
		return nil, err
	}
	return Over(m, shape.Bytes(make([]int64, (m.Bytes()+7)/8)))
}

// Over makes a host tensor over memory, which has as many bytes as the metadata, or
// more, and is aligned for its elements. There is no copy. Scalars and tensors without
// elements are as [New] makes them.
func Over(m shape.Meta, b []byte) (*tensor.Dense, error) {
	if err := m.Shape.Validate(); err != nil {
		return nil, err
	}
	switch b = b[:m.Bytes():m.Bytes()]; m.DType {
	case shape.Float32:
		return over(m.Shape, shape.View[float32](b)), nil
	case shape.Float64:
		return over(m.Shape, shape.View[float64](b)), nil
	case shape.Int32:
		return over(m.Shape, shape.View[int32](b)), nil
	case shape.Int64:
		return over(m.Shape, shape.View[int64](b)), nil
	case shape.Uint8:
		return over(m.Shape, b), nil
	}
	return nil, fmt.Errorf("no host tensor has elements of type %v: use f32, f64, i32, i64 or u8", m.DType)
}

// over makes a tensor over elements. gorgonia has no scalars.
func over[T float32 | float64 | int32 | int64 | uint8](s shape.Shape, elements []T) *tensor.Dense {
	if s.Rank() == 0 {
		s = shape.Of(1)
	}
	return tensor.New(tensor.WithShape(s...), tensor.WithBacking(elements))
}

// Bytes is the metadata of a host tensor and its memory, without a copy. It
// refuses a tensor that is not row-major and contiguous in Go memory: its
// memory would not be its elements in order.
func Bytes(t *tensor.Dense) (shape.Meta, []byte, error) {
	if t == nil {
		return shape.Meta{}, nil, fmt.Errorf("host tensor is nil")
	}
	if !t.IsNativelyAccessible() || t.IsManuallyManaged() {
		return shape.Meta{}, nil, fmt.Errorf("tensor %v is not in Go memory: copy it to the host first", t.Shape())
	}
	iterates := t.RequiresIterator() && t.Len() > 0 // without elements, gorgonia says that it does
	if iterates || !t.DataOrder().IsRowMajor() || !t.DataOrder().IsContiguous() {
		return shape.Meta{}, nil, fmt.Errorf("tensor %v is not contiguous and row-major: Materialize it first", t.Shape())
	}
	d, b := elements(t)
	if d == shape.Invalid {
		return shape.Meta{}, nil, fmt.Errorf("host tensor %v has elements of type %v: use float32, float64, int32, int64 or uint8", t.Shape(), t.Dtype())
	}
	return shape.Meta{DType: d, Shape: shape.Shape(t.Shape().Clone())}, b, nil
}

// elements is the type and memory of a tensor, [shape.Invalid] if it has no type of
// ours.
func elements(t *tensor.Dense) (shape.DType, []byte) {
	switch t.Dtype() {
	case tensor.Float32:
		return shape.Float32, shape.Bytes(t.Float32s())
	case tensor.Float64:
		return shape.Float64, shape.Bytes(t.Float64s())
	case tensor.Int32:
		return shape.Int32, shape.Bytes(t.Int32s())
	case tensor.Int64:
		return shape.Int64, shape.Bytes(t.Int64s())
	case tensor.Uint8:
		return shape.Uint8, t.Uint8s()
	}
	return shape.Invalid, nil
}

// Point makes b the memory of a tensor that New made, which has as many bytes. It
// allocates nothing. With nil, the tensor is empty until the next call.
func Point(t *tensor.Dense, b []byte) { t.Raw = b }

// At reports whether a tensor still has a shape and lies over b.
func At(t *tensor.Dense, s shape.Shape, b []byte) bool {
	if s.Rank() == 0 {
		return t.Dims() == 1 && t.Shape()[0] == 1 && liesOver(t, b)
	}
	return slices.Equal(t.Shape(), tensor.Shape(s)) && liesOver(t, b)
}

// liesOver reports whether a tensor lies over b.
func liesOver(t *tensor.Dense, b []byte) bool {
	return len(t.Raw) == len(b) && unsafe.SliceData(t.Raw) == unsafe.SliceData(b)
}
