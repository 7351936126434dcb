package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// castKernels convert elements one by one, the same at every ISA level. The instruction set
// of the level widens bfloat16, the others are plain Go.
var castKernels = work.Table{
	"cast(i32)->f32": newCast(func(_ *castOf, y []float32, x []int32) {
		for i, v := range x {
			y[i] = float32(v)
		}
	}),
	"cast(f32)->i32": newCast(func(_ *castOf, y []int32, x []float32) {
		for i, v := range x {
			y[i] = ops.Truncate(v)
		}
	}),
	"cast(f32)->f32": newCast(func(c *castOf, y, x []float32) {
		round := ops.RoundF16
		if c.op.To == "bf16" {
			round = ops.RoundBF16
		}
		for i, v := range x {
			y[i] = round(v)
		}
	}),
	"cast(bf16)->f32": newCast(func(c *castOf, y []float32, x []uint16) { c.vec.Widen(y, x) }),
}

// castOf is a cast, and the functions of the level that it runs at.
type castOf struct {
	op  ops.Cast
	vec *vec.Funcs
}

// castKernel converts elements of type X to type Y.
type castKernel[X int32 | float32 | uint16, Y int32 | float32] struct {
	castOf
	n       int
	convert func(c *castOf, y []Y, x []X)
	y       []Y
	x       []X
}

func newCast[X int32 | float32 | uint16, Y int32 | float32](convert func(c *castOf, y []Y, x []X)) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) {
		return &castKernel[X, Y]{castOf: castOf{n.Op.(ops.Cast), on.ISA.Vec()}, n: work.Out(n, 0).Elems(), convert: convert}, nil
	}
}

func (k *castKernel[X, Y]) ScratchBytes() int64 { return 0 }

func (k *castKernel[X, Y]) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = shape.View[Y](a.Out[0])[:k.n], shape.View[X](a.In[0])[:k.n]
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *castKernel[X, Y]) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.convert(&k.castOf, k.y[lo:hi], k.x[lo:hi])
}
