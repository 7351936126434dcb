package kernels

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// movementKernels copy 4-byte elements of either type, bit for bit.
var movementKernels = map[string]constructor{
	"reshape(f32)->f32":      newReshape,
	"reshape(i32)->i32":      newReshape,
	"transpose(f32)->f32":    newTranspose,
	"transpose(i32)->i32":    newTranspose,
	"slice(f32)->f32":        newSlice,
	"slice(i32)->i32":        newSlice,
	"broadcast_to(f32)->f32": newBroadcast,
	"broadcast_to(i32)->i32": newBroadcast,
	"slice_grad(f32)->f32":   newSliceGrad,
	"concat(f32...)->f32":    newConcat,
	"concat(i32...)->i32":    newConcat,
}

// copyGrain is how many elements a copying chunk moves.
const copyGrain = 16384

// view walks memory with strides: a transposed, sliced or stretched tensor.
type view struct {
	dims, strides []int // neighbours merged, at least one
	base          int
}

// viewOf drops dimensions of 1 and merges neighbours that are one run.
func viewOf(dims, strides []int, base int) view {
	v := view{base: base}
	for d, size := range dims {
		if size == 1 {
			continue
		}
		if m := len(v.dims) - 1; m >= 0 && v.strides[m] == size*strides[d] {
			v.dims[m] *= size
			v.strides[m] = strides[d]
			continue
		}
		v.dims, v.strides = append(v.dims, size), append(v.strides, strides[d])
	}
	if len(v.dims) == 0 {
		v.dims, v.strides = []int{1}, []int{1}
	}
	return v
}

// at is where the elements at linear index i of all but the last dimension
// start.
func (v *view) at(i int) int {
	p := v.base
	for d := len(v.dims) - 2; d >= 0; d-- {
		p += i % v.dims[d] * v.strides[d]
		i /= v.dims[d]
	}
	return p
}

// run is the length of the innermost dimension and its stride.
func (v *view) inner() (n, stride int) {
	last := len(v.dims) - 1
	return v.dims[last], v.strides[last]
}

// viewCopy writes a view of its input as a contiguous output.
type viewCopy struct {
	isa  ISA
	n    int
	view view
	y, x []int32
}

func newViewCopy(n *graph.Node, strides []int, base int) (Kernel, error) {
	s := out(n, 0).Shape
	k := &viewCopy{isa: Using(), n: s.Elems(), view: viewOf(s, strides, base)}
	if r := len(k.view.dims); r >= 2 && k.view.strides[r-2] == 1 && k.view.strides[r-1] > 1 {
		return (*transposeCopy)(k), nil
	}
	return k, nil
}

func newReshape(n *graph.Node) (Kernel, error) {
	return newViewCopy(n, out(n, 0).Shape.Strides(), 0)
}

func newTranspose(n *graph.Node) (Kernel, error) {
	own := in(n, 0).Shape.Strides()
	st := make([]int, len(own))
	for i, d := range n.Op.(ops.Transpose).Perm {
		st[i] = own[d]
	}
	return newViewCopy(n, st, 0)
}

func newSlice(n *graph.Node) (Kernel, error) {
	st := in(n, 0).Shape.Strides()
	return newViewCopy(n, st, dot(st, n.Op.(ops.Slice).Start))
}

// broadcast is a copy that stretches.
type broadcast struct{ Kernel }

func newBroadcast(n *graph.Node) (Kernel, error) {
	k, err := newViewCopy(n, stretched(out(n, 0).Shape, in(n, 0).Shape), 0)
	return broadcast{k}, err
}

// dot is the element offset of an index.
func dot(strides, index []int) int {
	p := 0
	for i, s := range strides {
		p += s * index[i]
	}
	return p
}

func (k *viewCopy) ScratchBytes() int64 { return 0 }

func (k *viewCopy) Run(p Pool, a *Args) error {
	if sameMemory(a.In[0], a.Out[0]) {
		return nil // a reshape in place
	}
	k.y, k.x = ints(a.Out[0], k.n), shape.View[int32](a.In[0])
	do(p, ceilDiv(k.n, copyGrain), k)
	return nil
}

func (k *viewCopy) Chunk(i int) {
	lo, hi := interval(i, copyGrain, k.n)
	read(k.isa, &k.view, k.y[lo:hi], k.x, lo)
}

// tiledCopy is a viewCopy whose last two dimensions are a transposed matrix.
type transposeCopy viewCopy

// tileRows is how many rows of the output a chunk writes.
const transposeRows = 256

func (k *transposeCopy) ScratchBytes() int64 { return 0 }

// matrix is the last two dimensions, and how many matrices there are.
func (k *transposeCopy) matrix() (count, rows, cols int) {
	last := len(k.view.dims) - 1
	rows, cols = k.view.dims[last-1], k.view.dims[last]
	return k.n / max(1, rows*cols), rows, cols
}

func (k *transposeCopy) Run(p Pool, a *Args) error {
	k.y, k.x = ints(a.Out[0], k.n), shape.View[int32](a.In[0])
	count, rows, _ := k.matrix()
	do(p, count*ceilDiv(rows, transposeRows), k)
	return nil
}

func (k *transposeCopy) Chunk(i int) {
	_, rows, cols := k.matrix()
	_, stride := k.view.inner()
	per := ceilDiv(rows, transposeRows)
	m := i / per
	r0, r1 := interval(i%per, transposeRows, rows)
	if first := m*rows + r0; cols > 0 {
		turn(k.isa, k.y[first*cols:], cols, k.x[k.view.at(first):], stride, cols, r1-r0)
	}
}

// sliceGrad places its input inside zeros.
type sliceGrad struct {
	isa     ISA
	n, m    int // elements of the output and of the input
	view    view
	y, x    []int32
	placing bool // the second loop, after the zeros
}

func newSliceGrad(n *graph.Node) (Kernel, error) {
	st := out(n, 0).Shape.Strides()
	x := in(n, 0).Shape
	return &sliceGrad{
		isa: Using(), n: out(n, 0).Elems(), m: x.Elems(), view: viewOf(x, st, dot(st, n.Op.(ops.SliceGrad).Start)),
	}, nil
}

func (k *sliceGrad) ScratchBytes() int64 { return 0 }

func (k *sliceGrad) Run(p Pool, a *Args) error {
	k.y, k.x = ints(a.Out[0], k.n), ints(a.In[0], k.m)
	k.placing = false
	do(p, ceilDiv(k.n, copyGrain), k)
	k.placing = true
	do(p, ceilDiv(k.m, copyGrain), k)
	return nil
}

func (k *sliceGrad) Chunk(i int) {
	if !k.placing {
		lo, hi := interval(i, copyGrain, k.n)
		clear(k.y[lo:hi])
		return
	}
	lo, hi := interval(i, copyGrain, k.m)
	inner, stride := k.view.inner()
	rows, apart := k.view.rows()
	for lo < hi {
		row, off := lo/inner, lo%inner
		p := k.view.at(row) + off*stride
		n := min(rows-row%rows, (hi-lo)/inner) * inner // whole rows
		if off > 0 || n == 0 {
			n = min(inner-off, hi-lo)
			writeStrided(k.y[p:], k.x[lo:lo+n], stride)
		} else if stride == 1 {
			copyRows(k.isa, k.y[p:], k.x[lo:], apart, inner, n/inner, inner)
		} else {
			for i := range n / inner {
				writeStrided(k.y[p+i*apart:], k.x[lo+i*inner:][:inner], stride)
			}
		}
		lo += n
	}
}

// writeRun writes every stride-th element.
func writeStrided(y, x []int32, stride int) {
	for j, v := range x {
		y[j*stride] = v
	}
}

// concat copies, for each index of the axes before Axis, one run per input.
type concat struct {
	isa             ISA
	outer, width    int
	lengths, starts []int // per input: length of a run and where it goes in the output's
	y               []int32
	x               [][]int32
}

func newConcat(n *graph.Node) (Kernel, error) {
	axis, s := n.Op.(ops.Concat).Axis, out(n, 0).Shape
	k := &concat{isa: Using(), outer: s[:axis].Elems(), width: s[axis:].Elems(), x: make([][]int32, len(n.In))}
	at := 0
	for _, v := range n.In {
		run := v.Meta.Shape[axis:].Elems()
		k.lengths, k.starts = append(k.lengths, run), append(k.starts, at)
		at += run
	}
	return k, nil
}

func (k *concat) ScratchBytes() int64 { return 0 }

func (k *concat) Run(p Pool, a *Args) error {
	k.y = ints(a.Out[0], k.outer*k.width)
	for i, run := range k.lengths {
		k.x[i] = ints(a.In[i], k.outer*run)
	}
	do(p, ceilDiv(k.outer, k.step())*ceilDiv(len(k.lengths), k.sources()), k)
	return nil
}

// step is how many indices of the outer axes a chunk copies.
func (k *concat) step() int { return max(1, copyGrain/max(1, k.width)) }

// sources is how many inputs a chunk copies: all, so that no two write to the
// same cache lines, or one where that is enough.
func (k *concat) sources() int {
	if k.width > copyGrain {
		return 1
	}
	return len(k.lengths)
}

func (k *concat) Chunk(i int) {
	across := ceilDiv(len(k.lengths), k.sources())
	lo, hi := interval(i/across, k.step(), k.outer)
	first, end := interval(i%across, k.sources(), len(k.lengths))
	for src := first; src < end; src++ {
		if run, at := k.lengths[src], k.starts[src]; run > 0 {
			copyRows(k.isa, k.y[lo*k.width+at:], k.x[src][lo*run:], k.width, run, hi-lo, run)
		}
	}
}
