package ref

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/shape"
)

// Array is a row-major tensor. F holds the numbers of a Float32 tensor, or of one that is
// stored ([shape.DType.Stored]), as float64; I holds the elements of an Int32 tensor. The other is nil.
type Array struct {
	Meta shape.Meta
	F    []float64
	I    []int32
}

// New is an array of zeros.
func New(m shape.Meta) Array {
	if m.DType == shape.Int32 {
		return Array{Meta: m, I: make([]int32, m.Elems())}
	}
	return Array{Meta: m, F: make([]float64, m.Elems())}
}

// Floats is a Float32 array with these elements.
func Floats(f []float64, dims ...int) Array { return Array{Meta: shape.F32(dims...), F: f} }

// Ints is an Int32 array with these elements.
func Ints(i []int32, dims ...int) Array { return Array{Meta: shape.I32(dims...), I: i} }

// check reports an array whose elements do not fit its metadata.
func (a Array) check() error {
	f, i := a.Meta.Elems(), 0
	if a.Meta.DType == shape.Int32 {
		f, i = 0, f
	}
	if len(a.F) != f || len(a.I) != i {
		return fmt.Errorf("%v has %d floats and %d integers, expected %d and %d", a.Meta, len(a.F), len(a.I), f, i)
	}
	return nil
}

// rows are the rows of an array: slices along its last axis.
func rows(a Array) [][]float64 {
	if len(a.F) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(a.F, a.Meta.Shape.Dim(-1)))
}

// move copies element j of src, of either type, to element i of dst.
func move(dst Array, i int, src Array, j int) {
	if dst.I != nil {
		dst.I[i] = src.I[j]
		return
	}
	dst.F[i] = src.F[j]
}
