package strided

import "github.com/berth-ml/berth/engine/shape"

// View walks memory with strides: a transposed, sliced or broadcast tensor.
type View struct {
	Dims, Strides []int // neighbours merged, at least one
	base          int
}

// ViewOf drops dimensions of 1, and merges neighbours that are equally far apart
// throughout.
func ViewOf(dims, strides []int, base int) View {
	v := View{base: base}
	for d, size := range dims {
		if size == 1 {
			continue
		}
		if m := len(v.Dims) - 1; m >= 0 && v.Strides[m] == size*strides[d] {
			v.Dims[m] *= size
			v.Strides[m] = strides[d]
			continue
		}
		v.Dims, v.Strides = append(v.Dims, size), append(v.Strides, strides[d])
	}
	if len(v.Dims) == 0 {
		v.Dims, v.Strides = []int{1}, []int{1}
	}
	return v
}

// At is where the elements at linear index i of all but the innermost dimension start.
func (v *View) At(i int) int {
	p := v.base
	for d := len(v.Dims) - 2; d >= 0; d-- {
		p += i % v.Dims[d] * v.Strides[d]
		i /= v.Dims[d]
	}
	return p
}

// Inner is the length of the innermost dimension, and its stride.
func (v *View) Inner() (n, stride int) {
	last := len(v.Dims) - 1
	return v.Dims[last], v.Strides[last]
}

// Rows is the number of rows, each an innermost dimension, that are equally far apart,
// and the elements from one to the next.
func (v *View) Rows() (n, apart int) {
	if last := len(v.Dims) - 1; last > 0 {
		return v.Dims[last-1], v.Strides[last-1]
	}
	return 1, 0
}

// Stretched is the strides of a tensor of shape s seen as one of shape out: 0 where it
// is broadcast.
func Stretched(out, s shape.Shape) []int {
	st, own := make([]int, len(out)), s.Strides()
	for d := range s {
		if s[d] != 1 {
			st[len(out)-len(s)+d] = own[d]
		}
	}
	return st
}
