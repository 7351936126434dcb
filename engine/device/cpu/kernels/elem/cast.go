package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// castKernels convert elements one by one, the same at every ISA level.
var castKernels = work.Table{
	"cast(i32)->f32": newCast(func(_ ops.Cast, y []float32, x []int32) {
		for i, v := range x {
			y[i] = float32(v)
		}
	}),
	"cast(f32)->i32": newCast(func(_ ops.Cast, y []int32, x []float32) {
		for i, v := range x {
			y[i] = ops.Truncate(v)
		}
	}),
	"cast(f32)->f32": newCast(func(o ops.Cast, y, x []float32) {
		round := ops.RoundF16
		if o.To == "bf16" {
			round = ops.RoundBF16
		}
		for i, v := range x {
			y[i] = round(v)
		}
	}),
}

// castKernel converts elements of type X to type Y.
type castKernel[X, Y int32 | float32] struct {
	op      ops.Cast
	n       int
	convert func(o ops.Cast, y []Y, x []X)
	y       []Y
	x       []X
}

func newCast[X, Y int32 | float32](convert func(o ops.Cast, y []Y, x []X)) work.Constructor {
	return func(n *graph.Node, _ work.Target) (work.Kernel, error) {
		return &castKernel[X, Y]{op: n.Op.(ops.Cast), n: work.Out(n, 0).Elems(), convert: convert}, nil
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
	k.convert(k.op, k.y[lo:hi], k.x[lo:hi])
}
