package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/strided"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// movementKernels copy 4-byte elements of either type, bit for bit.
var movementKernels = work.Table{
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

// copyGrain is the elements that a copying chunk moves.
const copyGrain = 16384

// viewCopy writes a view of its input as a contiguous output.
type viewCopy struct {
	isa  isa.ISA
	n    int
	view strided.View
	y, x []int32
}

func newViewCopy(on work.Target, n *graph.Node, strides []int, base int) (work.Kernel, error) {
	s := work.Out(n, 0).Shape
	k := &viewCopy{isa: on.ISA, n: s.Elems(), view: strided.ViewOf(s, strides, base)}
	if r := len(k.view.Dims); r >= 2 && k.view.Strides[r-2] == 1 && k.view.Strides[r-1] > 1 {
		return (*transposeCopy)(k), nil
	}
	return k, nil
}

func newReshape(n *graph.Node, on work.Target) (work.Kernel, error) {
	return newViewCopy(on, n, work.Out(n, 0).Shape.Strides(), 0)
}

func newTranspose(n *graph.Node, on work.Target) (work.Kernel, error) {
	own := work.In(n, 0).Shape.Strides()
	st := make([]int, len(own))
	for i, d := range n.Op.(ops.Transpose).Perm {
		st[i] = own[d]
	}
	return newViewCopy(on, n, st, 0)
}

func newSlice(n *graph.Node, on work.Target) (work.Kernel, error) {
	st := work.In(n, 0).Shape.Strides()
	return newViewCopy(on, n, st, dot(st, n.Op.(ops.Slice).Start))
}

// broadcast is a copy that repeats elements.
type broadcast struct{ work.Kernel }

func newBroadcast(n *graph.Node, on work.Target) (work.Kernel, error) {
	k, err := newViewCopy(on, n, strided.Stretched(work.Out(n, 0).Shape, work.In(n, 0).Shape), 0)
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

func (k *viewCopy) Run(p work.Pool, a *work.Args) error {
	if work.SameMemory(a.In[0], a.Out[0]) {
		return nil // a reshape in place
	}
	k.y, k.x = work.Ints(a.Out[0], k.n), shape.View[int32](a.In[0])
	work.Do(p, work.CeilDiv(k.n, copyGrain), k)
	return nil
}

func (k *viewCopy) Chunk(i int) {
	lo, hi := work.Interval(i, copyGrain, k.n)
	strided.Read(k.isa, &k.view, k.y[lo:hi], k.x, lo)
}

// transposeCopy is a viewCopy whose last two dimensions are a transposed matrix.
type transposeCopy viewCopy

// transposeRows is the most rows of the output that a chunk writes.
const transposeRows = 256

func (k *transposeCopy) ScratchBytes() int64 { return 0 }

// matrix is the last two dimensions, and the number of such matrices.
func (k *transposeCopy) matrix() (count, rows, cols int) {
	last := len(k.view.Dims) - 1
	rows, cols = k.view.Dims[last-1], k.view.Dims[last]
	return k.n / max(1, rows*cols), rows, cols
}

func (k *transposeCopy) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Ints(a.Out[0], k.n), shape.View[int32](a.In[0])
	count, rows, _ := k.matrix()
	work.Do(p, count*work.CeilDiv(rows, transposeRows), k)
	return nil
}

func (k *transposeCopy) Chunk(i int) {
	_, rows, cols := k.matrix()
	_, stride := k.view.Inner()
	per := work.CeilDiv(rows, transposeRows)
	m := i / per
	r0, r1 := work.Interval(i%per, transposeRows, rows)
	if first := m*rows + r0; cols > 0 {
		strided.Transpose(k.isa, k.y[first*cols:], cols, k.x[k.view.At(first):], stride, cols, r1-r0)
	}
}

// sliceGrad writes its input into zeros.
type sliceGrad struct {
	isa  isa.ISA
	n, m int // elements of the output and of the input
	view strided.View
	y, x []int32
}

func newSliceGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	st := work.Out(n, 0).Shape.Strides()
	x := work.In(n, 0).Shape
	return &sliceGrad{
		isa: on.ISA, n: work.Out(n, 0).Elems(), m: x.Elems(), view: strided.ViewOf(x, st, dot(st, n.Op.(ops.SliceGrad).Start)),
	}, nil
}

func (k *sliceGrad) ScratchBytes() int64 { return 0 }

func (k *sliceGrad) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Ints(a.Out[0], k.n), work.Ints(a.In[0], k.m)
	work.Do(p, work.CeilDiv(k.n, copyGrain), (*sliceGradZeros)(k))
	work.Do(p, work.CeilDiv(k.m, copyGrain), k)
	return nil
}

// sliceGradZeros writes the zeros.
type sliceGradZeros sliceGrad

func (k *sliceGradZeros) Chunk(i int) {
	lo, hi := work.Interval(i, copyGrain, k.n)
	clear(k.y[lo:hi])
}

// Chunk writes some elements of the input: whole rows where it can.
func (k *sliceGrad) Chunk(i int) {
	lo, hi := work.Interval(i, copyGrain, k.m)
	inner, stride := k.view.Inner()
	rows, apart := k.view.Rows()
	for lo < hi {
		row, off := lo/inner, lo%inner
		p := k.view.At(row) + off*stride
		n := min(rows-row%rows, (hi-lo)/inner) * inner
		if off > 0 || n == 0 {
			n = min(inner-off, hi-lo)
			writeStrided(k.y[p:], k.x[lo:lo+n], stride)
		} else if stride == 1 {
			strided.CopyRows(k.isa, k.y[p:], k.x[lo:], apart, inner, n/inner, inner)
		} else {
			for i := range n / inner {
				writeStrided(k.y[p+i*apart:], k.x[lo+i*inner:][:inner], stride)
			}
		}
		lo += n
	}
}

// writeStrided writes every stride-th element.
func writeStrided(y, x []int32, stride int) {
	for j, v := range x {
		y[j*stride] = v
	}
}

// concat copies, for each index of the axes before Axis, neighbouring elements of one
// input after the other.
type concat struct {
	isa             isa.ISA
	outer, width    int
	lengths, starts []int // of each input: its elements, and where among the output's they go
	y               []int32
	x               [][]int32
}

func newConcat(n *graph.Node, on work.Target) (work.Kernel, error) {
	axis, s := n.Op.(ops.Concat).Axis, work.Out(n, 0).Shape
	k := &concat{isa: on.ISA, outer: s[:axis].Elems(), width: s[axis:].Elems(), x: make([][]int32, len(n.In))}
	at := 0
	for _, v := range n.In {
		run := v.Meta.Shape[axis:].Elems()
		k.lengths, k.starts = append(k.lengths, run), append(k.starts, at)
		at += run
	}
	return k, nil
}

func (k *concat) ScratchBytes() int64 { return 0 }

func (k *concat) Run(p work.Pool, a *work.Args) error {
	k.y = work.Ints(a.Out[0], k.outer*k.width)
	for i, run := range k.lengths {
		k.x[i] = work.Ints(a.In[i], k.outer*run)
	}
	work.Do(p, work.CeilDiv(k.outer, k.step())*work.CeilDiv(len(k.lengths), k.sources()), k)
	return nil
}

// step is the most indices of the outer axes for which a chunk copies.
func (k *concat) step() int { return max(1, copyGrain/max(1, k.width)) }

// sources is the inputs that a chunk copies: all, so that no two chunks write to the
// same cache lines, or one where that is enough.
func (k *concat) sources() int {
	if k.width > copyGrain {
		return 1
	}
	return len(k.lengths)
}

func (k *concat) Chunk(i int) {
	across := work.CeilDiv(len(k.lengths), k.sources())
	lo, hi := work.Interval(i/across, k.step(), k.outer)
	first, end := work.Interval(i%across, k.sources(), len(k.lengths))
	for src := first; src < end; src++ {
		if run, at := k.lengths[src], k.starts[src]; run > 0 {
			strided.CopyRows(k.isa, k.y[lo*k.width+at:], k.x[src][lo*run:], k.width, run, hi-lo, run)
		}
	}
}
