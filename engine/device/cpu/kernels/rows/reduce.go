package rows

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/strided"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var reduceKernels = work.Table{
	"reduce_sum(f32)->f32":              newReduce,
	"reduce_mean(f32)->f32":             newReduce,
	"reduce_max(f32)->f32":              newReduce,
	"sum_to(f32)->f32":                  newSumTo,
	"sum_squares(f32)->f32":             newSumSquares,
	"reduce_max_grad(f32,f32,f32)->f32": newReduceMaxGrad,
}

const (
	reduceWidth  = 64           // most output elements of a chunk
	partialElems = ops.SumElems // about the elements of x in one partial sum, where outputs are few
)

// reduce folds x over some axes in float64, in the order in which x lies in memory.
// Where there are few outputs of many elements each, an output has partial results,
// which are folded in order.
type reduce struct {
	vec                  *vec.Funcs
	f                    fold
	scale                float64
	n, total             int          // outputs, and elements folded into each
	width                int          // outputs of a chunk
	partials, perPartial int          // partial results of each output, and elements folded into each of these
	outer, folded        strided.View // the kept and the folded axes
	y, x                 []float32
	sums                 []float64 // [partials, n]
}

// fold says how elements are combined.
type fold uint8

const (
	foldSum fold = iota
	foldMax
	foldSquares
)

func newReduce(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Reduce)
	s := work.In(n, 0).Shape
	f, scale := foldSum, 1.0
	switch op.Fn {
	case "max":
		f = foldMax
	case "mean":
		scale = float64(work.Out(n, 0).Elems()) / float64(s.Elems())
	}
	return reduceOf(on, s, keptAxes(s, op.Axes), f, scale), nil
}

// keptAxes marks the axes of s that are not among axes; no axes means all.
func keptAxes(s shape.Shape, axes []int) []bool {
	keep := make([]bool, len(s))
	for i := range s {
		keep[i] = len(axes) > 0 && !slices.Contains(axes, i)
	}
	return keep
}

func newSumTo(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := sumTo(n, on)
	if n.Whole() == n {
		return k, nil
	}
	switch of := sumTo(n.Whole(), on).(type) { // some of the outputs
	case *reduce:
		if part, ok := k.(*reduce); ok {
			part.partials = of.partials
		}
	case *rowFold:
		if part, ok := k.(*rowFold); ok {
			part.height, part.wide = of.height, of.wide
		}
	}
	return k, nil
}

func sumTo(n *graph.Node, on work.Target) work.Kernel {
	s, to := work.In(n, 0).Shape, work.Out(n, 0).Shape
	keep := make([]bool, len(s))
	for i := range to {
		d := len(s) - len(to) + i
		keep[d] = to[i] == s[d]
	}
	return reduceOf(on, s, keep, foldSum, 1)
}

func newSumSquares(n *graph.Node, on work.Target) (work.Kernel, error) {
	s := work.In(n, 0).Shape
	return reduceOf(on, s, make([]bool, len(s)), foldSquares, 1), nil
}

// reduceOf plans the walk over a tensor of shape s.
func reduceOf(on work.Target, s shape.Shape, keep []bool, f fold, scale float64) work.Kernel {
	k := &reduce{vec: on.ISA.Vec(), f: f, scale: scale, partials: 1, perPartial: partialElems}
	k.outer, k.folded, k.n, k.total = splitAxes(s, keep)
	if run, _ := k.folded.Inner(); run > 0 && run < partialElems {
		k.perPartial = partialElems / run * run
	}
	if k.columns() {
		if c, ok := newRowFold(k); ok {
			return c
		}
	}
	narrow := 1
	if k.columns() {
		narrow = 16
	}
	k.width = min(reduceWidth, max(narrow, partialElems/max(1, k.total)))
	if work.CeilDiv(k.n, k.width) < 8 {
		k.partials = max(1, work.CeilDiv(k.total, k.perPartial))
	}
	return k
}

// splitAxes views a tensor of shape s as kept axes by folded axes.
func splitAxes(s shape.Shape, keep []bool) (outer, folded strided.View, n, total int) {
	st := s.Strides()
	var kd, ks, fd, fs []int
	for i, d := range s {
		if keep[i] {
			kd, ks = append(kd, d), append(ks, st[i])
		} else {
			fd, fs = append(fd, d), append(fs, st[i])
		}
	}
	return strided.ViewOf(kd, ks, 0), strided.ViewOf(fd, fs, 0), shape.Shape(kd).Elems(), shape.Shape(fd).Elems()
}

// columns reports whether outputs lie side by side and the elements folded into one do
// not.
func (k *reduce) columns() bool {
	_, so := k.outer.Inner()
	_, sf := k.folded.Inner()
	return k.n > 1 && so == 1 && (sf != 1 || k.total == 1)
}

func (k *reduce) ScratchBytes() int64 {
	if k.partials == 1 {
		return 0
	}
	return int64(k.partials) * int64(k.n) * 8
}

func (k *reduce) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Floats(a.Out[0], k.n), shape.View[float32](a.In[0])
	if k.partials > 1 {
		k.sums = work.Doubles(a.Scratch, k.partials*k.n)
	}
	work.Do(p, k.partials*work.CeilDiv(k.n, k.width), k)
	for i := 0; k.partials > 1 && i < k.n; i++ {
		acc := k.f.start()
		for part := range k.partials {
			acc = k.f.join(acc, k.sums[part*k.n+i])
		}
		k.y[i] = float32(acc * k.scale)
	}
	return nil
}

func (k *reduce) Chunk(i int) {
	per := work.CeilDiv(k.n, k.width)
	part := i / per
	lo, hi := work.Interval(i%per, k.width, k.n)
	f0, f1 := 0, k.total
	if k.partials > 1 {
		f0, f1 = work.Interval(part, k.perPartial, k.total)
	}
	inner, stride := k.outer.Inner()
	r := work.TakeRegisters()
	for lo < hi {
		off := lo % inner
		n := min(inner-off, hi-lo)
		acc := r.Doubles()[:n]
		k.foldInto(acc, k.outer.At(lo/inner)+off*stride, stride, f0, f1)
		if k.partials > 1 {
			copy(k.sums[part*k.n+lo:], acc)
		} else {
			for j, v := range acc {
				k.y[lo+j] = float32(v * k.scale)
			}
		}
		lo += n
	}
	r.GiveBack()
}

// foldInto folds elements f0..f1 of each of len(acc) neighbouring outputs. The first
// output's elements start at base.
func (k *reduce) foldInto(acc []float64, base, stride, f0, f1 int) {
	for j := range acc {
		acc[j] = k.f.start()
	}
	run, step := k.folded.Inner()
	for f0 < f1 {
		off := f0 % run
		n := min(run-off, f1-f0)
		at := base + k.folded.At(f0/run) + off*step
		f0 += n
		if !k.columns() {
			k.f.along(k.vec, acc, k.x[at:], stride, n)
			continue
		}
		k.f.across(k.vec, acc, k.x[at:], step, n)
	}
}

// start is the result of folding no elements.
func (f fold) start() float64 {
	if f == foldMax {
		return math.Inf(-1)
	}
	return 0
}

// join combines two partial results.
func (f fold) join(a, b float64) float64 {
	if f == foldMax {
		return maxOf(a, b)
	}
	return a + b
}

// maxOf is the larger of two numbers, NaN if one is.
func maxOf(a, b float64) float64 {
	if b > a || b != b {
		return b
	}
	return a
}

// along folds n neighbours into each of acc, whose elements start stride apart. Squares
// are folded into one.
func (f fold) along(v *vec.Funcs, acc []float64, x []float32, stride, n int) {
	switch f {
	case foldSum:
		v.SumEach(acc, x, stride, n)
	case foldMax:
		v.MaxEach(acc, x, stride, n)
	case foldSquares:
		acc[0] += v.SquaresFrom(x[:n], 0)
	}
}

// across folds rows, stride elements apart, into acc. Squares never come this way.
func (f fold) across(v *vec.Funcs, acc []float64, x []float32, stride, rows int) {
	if f == foldMax {
		v.MaxRows(acc, x, stride, rows)
		return
	}
	v.SumRows(acc, x, stride, rows)
}

// reduceMaxGrad gives dy to the first element of x that equals y.
type reduceMaxGrad struct {
	vec           *vec.Funcs
	n, total      int
	outer, folded strided.View
	dx, x, y, dy  []float32
}

func newReduceMaxGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	s := work.In(n, 0).Shape
	k := &reduceMaxGrad{vec: on.ISA.Vec()}
	k.outer, k.folded, k.n, k.total = splitAxes(s, keptAxes(s, n.Op.(ops.ReduceMaxGrad).Axes))
	return k, nil
}

func (k *reduceMaxGrad) ScratchBytes() int64 { return 0 }

func (k *reduceMaxGrad) Run(p work.Pool, a *work.Args) error {
	k.dx, k.x = work.Floats(a.Out[0], k.n*k.total), work.Floats(a.In[0], k.n*k.total)
	k.y, k.dy = work.Floats(a.In[1], k.n), work.Floats(a.In[2], k.n)
	work.Do(p, work.CeilDiv(k.n, work.RowGrain(k.total)), k)
	return nil
}

func (k *reduceMaxGrad) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.total), k.n)
	inner, stride := k.outer.Inner()
	_, step := k.folded.Inner()
	columns := stride == 1 && len(k.folded.Dims) == 1
	for lo < hi {
		off, n := lo%inner, 1
		base := k.outer.At(lo/inner) + off*stride
		if columns {
			n = min(inner-off, hi-lo)
			k.vec.FirstRows(k.dx[base:], k.x[base:], k.y[lo:lo+n], k.dy[lo:lo+n], step, k.total)
		} else {
			k.find(lo, base)
		}
		lo += n
	}
}

// find writes the elements that were folded into output o, from base on.
func (k *reduceMaxGrad) find(o, base int) {
	run, step := k.folded.Inner()
	found := false
	for f := 0; f < k.total; f += run {
		p := base + k.folded.At(f/run)
		for end := p + run*step; p < end; p += step {
			k.dx[p] = 0
			if !found && k.x[p] == k.y[o] {
				k.dx[p], found = k.dy[o], true
			}
		}
	}
}
