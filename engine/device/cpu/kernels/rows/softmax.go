package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
)

// Rows are the last axis. Their sums are in float64, except those of rows that fit into
// a few vectors.
var softmaxKernels = work.Table{
	"softmax(f32)->f32":              rowwise(softmaxRow, func(v *vec.Funcs) narrowFunc { return v.Softmax }),
	"log_softmax(f32)->f32":          rowwise(logSoftmaxRow, narrowLogSoftmax),
	"softmax_grad(f32,f32)->f32":     rowwise(softmaxGradRow, func(v *vec.Funcs) narrowFunc { return v.SoftmaxGrad }),
	"log_softmax_grad(f32,f32)->f32": rowwise(logSoftmaxGradRow, func(v *vec.Funcs) narrowFunc { return v.LogSoftmaxGrad }),
}

// narrowFunc computes all rows of a chunk at once, by [vec.Narrow].
type narrowFunc = func(y, a, b []float32, n int) bool

// rowKernel is y[r] = f(a[r], b[r]) for each row; b is a where there is one input.
// narrow takes all rows at once, or reports that they are too wide for that.
type rowKernel struct {
	vec     *vec.Funcs
	r, c    int
	f       func(v *vec.Funcs, y, a, b []float32)
	narrow  narrowFunc
	y, a, b []float32
}

func rowwise(f func(v *vec.Funcs, y, a, b []float32), narrow func(*vec.Funcs) narrowFunc) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) {
		k := &rowKernel{vec: on.ISA.Vec(), f: f, narrow: narrow(on.ISA.Vec())}
		k.r, k.c = work.RowsOf(work.Out(n, 0).Shape)
		return k, nil
	}
}

func (k *rowKernel) ScratchBytes() int64 { return 0 }

func (k *rowKernel) Run(p work.Pool, a *work.Args) error {
	n := k.r * k.c
	if n == 0 {
		return nil
	}
	k.y, k.a, k.b = work.Floats(a.Out[0], n), work.Floats(a.In[0], n), work.Floats(a.In[len(a.In)-1], n)
	work.Do(p, work.CeilDiv(k.r, work.RowGrain(k.c)), k)
	return nil
}

func (k *rowKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.c), k.r)
	if s, e := lo*k.c, hi*k.c; k.narrow(k.y[s:e], k.a[s:e], k.b[s:e], k.c) {
		return
	}
	for ; lo < hi; lo++ {
		s, e := lo*k.c, (lo+1)*k.c
		k.f(k.vec, k.y[s:e], k.a[s:e], k.b[s:e])
	}
}

func softmaxRow(v *vec.Funcs, y, x, _ []float32) {
	v.MulScalar(y, y, float32(1/v.ExpSum(y, x, v.Max(x))))
}

func logSoftmaxRow(v *vec.Funcs, y, x, _ []float32) {
	lse := v.LogSumExp(x)
	high := float32(lse)
	v.Standardize(y, x, high, float32(lse-float64(high)), 1, 0)
}

// narrowLogSoftmax takes the logarithms of the rows' sums together.
func narrowLogSoftmax(v *vec.Funcs) narrowFunc {
	return func(y, x, _ []float32, n int) bool {
		r := work.TakeRegisters()
		rows := len(x) / n
		most, sums := r.All[:rows], r.All[rows:2*rows]
		ok := v.ExpSums(most, sums, x, n)
		if ok {
			v.Log(sums, sums)
			v.Minus(y, x, most, sums, n)
		}
		r.GiveBack()
		return ok
	}
}

// softmaxGradRow is dx = y (dy - sum(y dy)).
func softmaxGradRow(v *vec.Funcs, dx, y, dy []float32) {
	v.MulFrom(dx, y, dy, float32(v.Dot(y, dy)))
}

// logSoftmaxGradRow is dx = dy - exp(y) sum(dy).
func logSoftmaxGradRow(v *vec.Funcs, dx, y, dy []float32) {
	v.LessExp(dx, y, dy, float32(v.Sum(dy)))
}
