package elem

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// selectKernels compare, and choose one of two numbers. They move bits and compute none,
// so they are the same for each instruction set.
var selectKernels = work.Table{
	"less(f32,f32)->f32":        chooser(func(graph.Op) pairFunc { return less }),
	"equal(f32,f32)->f32":       chooser(func(graph.Op) pairFunc { return equal }),
	"select(f32,f32,f32)->f32":  newSelect,
	"select_grad(f32,f32)->f32": chooser(selectGrad),
}

func chooser(of func(graph.Op) pairFunc) work.Constructor {
	return func(n *graph.Node, _ work.Target) (work.Kernel, error) { return newPair(n, of(n.Op)), nil }
}

// The loops have no branches: which number is chosen is often random.

func less(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = one(a[i] < b[i])
	}
}

func equal(y, a, b []float32) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = one(a[i] == b[i])
	}
}

// one is 1 for true, and 0 for false.
func one(is bool) float32 {
	var bit uint32
	if is {
		bit = 1
	}
	return math.Float32frombits(-bit & 0x3f800000) // the bits of 1
}

// chosen is all ones where p is not 0, else 0. The bit shifted out is the sign.
func chosen(p float32) uint32 {
	bits := math.Float32bits(p) << 1
	return uint32(int32(bits|-bits) >> 31)
}

func selectGrad(op graph.Op) pairFunc {
	if op.(ops.SelectGrad).Else {
		return keepElse
	}
	return keep
}

// keep is dy where p is not 0, and 0 elsewhere.
func keep(y, p, dy []float32) {
	p, dy = p[:len(y)], dy[:len(y)]
	for i := range y {
		y[i] = math.Float32frombits(math.Float32bits(dy[i]) & chosen(p[i]))
	}
}

// keepElse is dy where p is 0, and 0 elsewhere.
func keepElse(y, p, dy []float32) {
	p, dy = p[:len(y)], dy[:len(y)]
	for i := range y {
		y[i] = math.Float32frombits(math.Float32bits(dy[i]) &^ chosen(p[i]))
	}
}

// choose is a where p is not 0, and b elsewhere.
func choose(y, p, a, b []float32) {
	p, a, b = p[:len(y)], a[:len(y)], b[:len(y)]
	for i := range y {
		c := chosen(p[i])
		y[i] = math.Float32frombits(math.Float32bits(a[i])&c | math.Float32bits(b[i])&^c)
	}
}

// selectKernel is y[i] = p[i] ? a[i] : b[i].
type selectKernel struct {
	n          int
	y, p, a, b []float32
}

func newSelect(n *graph.Node, _ work.Target) (work.Kernel, error) {
	return &selectKernel{n: work.Out(n, 0).Elems()}, nil
}

func (k *selectKernel) ScratchBytes() int64 { return 0 }

func (k *selectKernel) Run(p work.Pool, a *work.Args) error {
	k.y, k.p = work.Floats(a.Out[0], k.n), work.Floats(a.In[0], k.n)
	k.a, k.b = work.Floats(a.In[1], k.n), work.Floats(a.In[2], k.n)
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *selectKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	choose(k.y[lo:hi], k.p[lo:hi], k.a[lo:hi], k.b[lo:hi])
}
