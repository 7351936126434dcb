package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// castKernels convert elements one by one, the same at every ISA level. The instruction set
// of the level widens what is stored, the others are plain Go.
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
	"cast(i8b)->f32":  newWidenInt8,
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

// widenInt8 widens rows of [shape.Int8Block].
type widenInt8 struct {
	rows, width, pitch int // pitch is the bytes of a row
	widen              func(y []float32, x []byte)
	y                  []float32
	x                  []byte
}

func newWidenInt8(n *graph.Node, on work.Target) (work.Kernel, error) {
	rows, width := work.In(n, 0).Rows()
	return &widenInt8{rows: rows, width: width, pitch: shape.BlocksBytes(width), widen: on.ISA.Vec().WidenInt8}, nil
}

func (k *widenInt8) ScratchBytes() int64 { return 0 }

func (k *widenInt8) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Floats(a.Out[0], k.rows*k.width), a.In[0]
	work.Do(p, work.CeilDiv(k.rows, work.RowGrain(k.width)), k)
	return nil
}

func (k *widenInt8) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.width), k.rows)
	for row := lo; row < hi; row++ {
		k.widen(k.y[row*k.width:(row+1)*k.width], k.x[row*k.pitch:(row+1)*k.pitch])
	}
}
