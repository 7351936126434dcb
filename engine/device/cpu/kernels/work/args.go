package work

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Floats views n float32 elements.
func Floats(b []byte, n int) []float32 { return shape.View[float32](b)[:n] }

// Ints views n int32 elements.
func Ints(b []byte, n int) []int32 { return shape.View[int32](b)[:n] }

// Doubles views n float64 elements of scratch memory.
func Doubles(b []byte, n int) []float64 { return shape.View[float64](b)[:n] }

// Scalar reads a float32 scalar.
func Scalar(b []byte) float32 { return shape.View[float32](b)[0] }

// ScalarInt reads an int32 scalar.
func ScalarInt(b []byte) int32 { return shape.View[int32](b)[0] }

// SameMemory reports whether two buffers are one.
func SameMemory(a, b []byte) bool {
	return len(a) > 0 && len(b) > 0 && &a[0] == &b[0]
}

// In and out are the metadata of a node's input and output i.
func In(n *graph.Node, i int) shape.Meta  { return n.In[i].Meta }
func Out(n *graph.Node, i int) shape.Meta { return n.Out[i].Meta }

// RowsOf splits a shape at its last axis, into r rows of c elements.
func RowsOf(s shape.Shape) (r, c int) {
	if len(s) == 0 {
		return 1, 1
	}
	return s[:len(s)-1].Elems(), s[len(s)-1]
}
