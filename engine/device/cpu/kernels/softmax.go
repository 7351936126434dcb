package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/graph"
)

// Rows are the last axis. Their sums are in float64.
var softmaxKernels = map[string]constructor{
	"softmax(f32)->f32":              rowwise(softmaxRow),
	"log_softmax(f32)->f32":          rowwise(logSoftmaxRow),
	"softmax_grad(f32,f32)->f32":     rowwisePair(softmaxGradRow),
	"log_softmax_grad(f32,f32)->f32": rowwisePair(logSoftmaxGradRow),
}

// rowKernel is y[r] = f(a[r], b[r]) for each row; b is nil for one input.
type rowKernel struct {
	r, c    int
	f       func(y, a, b []float32)
	y, a, b []float32
}

func rowwise(f func(y, x []float32)) constructor {
	return rowwisePair(func(y, x, _ []float32) { f(y, x) })
}

func rowwisePair(f func(y, a, b []float32)) constructor {
	return func(n *graph.Node) (Kernel, error) {
		k := &rowKernel{f: f}
		k.r, k.c = rows(out(n, 0).Shape)
		return k, nil
	}
}

func (k *rowKernel) ScratchBytes() int64 { return 0 }

func (k *rowKernel) Run(p Pool, a *Args) error {
	n := k.r * k.c
	if n == 0 {
		return nil
	}
	k.y, k.a, k.b = floats(a.Out[0], n), floats(a.In[0], n), floats(a.In[len(a.In)-1], n)
	do(p, chunks(k.r, rowGrain(k.c)), k)
	return nil
}

func (k *rowKernel) Chunk(i int) {
	lo, hi := span(i, rowGrain(k.c), k.r)
	for ; lo < hi; lo++ {
		s, e := lo*k.c, (lo+1)*k.c
		k.f(k.y[s:e], k.a[s:e], k.b[s:e])
	}
}

// rowMax is the largest element that is not NaN.
func rowMax(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// logSumExp is log(sum(exp(x))), shifted by the maximum so that it cannot
// overflow.
func logSumExp(x []float32) float64 {
	m, sum := float64(rowMax(x)), 0.0
	for _, v := range x {
		sum += vec.Exp64(float64(v) - m)
	}
	return m + math.Log(sum)
}

func softmaxRow(y, x []float32) {
	m, sum := float64(rowMax(x)), 0.0
	y = y[:len(x)]
	for j, v := range x {
		e := vec.Exp64(float64(v) - m)
		sum += e
		y[j] = float32(e)
	}
	r := float32(1 / sum)
	for j := range y {
		y[j] *= r
	}
}

func logSoftmaxRow(y, x []float32) {
	lse := logSumExp(x)
	y = y[:len(x)]
	for j, v := range x {
		y[j] = float32(float64(v) - lse)
	}
}

// softmaxGradRow is dx = y (dy - sum(y dy)).
func softmaxGradRow(dx, y, dy []float32) {
	dx, dy = dx[:len(y)], dy[:len(y)]
	sum := 0.0
	for j, v := range y {
		sum += float64(v) * float64(dy[j])
	}
	for j, v := range y {
		dx[j] = float32(float64(v) * (float64(dy[j]) - sum))
	}
}

// logSoftmaxGradRow is dx = dy - exp(y) sum(dy).
func logSoftmaxGradRow(dx, y, dy []float32) {
	dx, dy = dx[:len(y)], dy[:len(y)]
	sum := 0.0
	for _, v := range dy {
		sum += float64(v)
	}
	for j, v := range y {
		dx[j] = float32(float64(dy[j]) - vec.Exp64(float64(v))*sum)
	}
}
