package gen

import (
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var movements = map[string]template{
	"transpose":  of(transpose),
	"slice":      of(slice),
	"slice_grad": of(sliceGrad),
	"concat":     of(concat),
}

// inWords and outWords are parameters for values of any type of 32 bits: they are
// moved as they are.
func inWords(i int, name string) param  { return inInts(i, name) }
func outWords(i int, name string) param { return outInts(i, name) }

// gatherBy writes each element of the output from input i at an offset and with strides.
func (w *writer) gatherBy(s shape.Shape, st []int, first int) {
	n := s.Elems()
	px, ix := position("p", s, st)
	w.items(n, append([]param{inWords(0, "X"), outWords(0, "Z"), number("first", first)}, px...),
		"\tZ[i] = X[first + "+ix+"];\n")
}

func transpose(w *writer, o ops.Transpose) {
	own, st := w.node.In[0].Meta.Shape.Strides(), make([]int, len(o.Perm))
	for i, d := range o.Perm {
		st[i] = own[d]
	}
	w.gatherBy(w.node.Out[0].Meta.Shape, st, 0)
}

func slice(w *writer, o ops.Slice) {
	st := w.node.In[0].Meta.Shape.Strides()
	w.gatherBy(w.node.Out[0].Meta.Shape, st, dot(o.Start, st))
}

// dot is the offset of an index under strides.
func dot(index, st []int) (at int) {
	for i, n := range index {
		at += n * st[i]
	}
	return at
}

// sliceGrad writes zeros, and then the input in their midst.
func sliceGrad(w *writer, o ops.SliceGrad) {
	n := w.outElems(0)
	w.items(n, []param{outInts(0, "Z")}, "\tZ[i] = 0;\n")
	st := w.node.Out[0].Meta.Shape.Strides()
	w.scatterBy(0, w.node.In[0].Meta.Shape, st, dot(o.Start, st))
}

// scatterBy writes each element of input i to the output at an offset and with strides.
func (w *writer) scatterBy(i int, s shape.Shape, st []int, first int) {
	n := s.Elems()
	px, ix := position("p", s, st)
	w.items(n, append([]param{inWords(i, "X"), outWords(0, "Z"), number("first", first)}, px...),
		"\tZ[first + "+ix+"] = X[i];\n")
}

func concat(w *writer, o ops.Concat) {
	st, first := w.node.Out[0].Meta.Shape.Strides(), 0
	for i, v := range w.node.In {
		w.scatterBy(i, v.Meta.Shape, st, first)
		first += v.Meta.Shape[o.Axis] * st[o.Axis]
	}
}
