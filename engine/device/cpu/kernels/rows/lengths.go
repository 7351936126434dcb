package rows

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var lengthKernels = work.Table{
	"pad_with(i32,i32)->i32":     newPadWith,
	"position_weights(i32)->f32": newPositionWeights,
}

// padWith copies the positions of b sequences that count, and fills the others. There are
// few of them.
type padWith struct {
	b, t  int
	value int32
}

func newPadWith(n *graph.Node, _ work.Target) (work.Kernel, error) {
	s := work.In(n, 0).Shape
	return &padWith{b: s[0], t: s[1:].Elems(), value: int32(n.Op.(ops.PadWith).Value)}, nil
}

func (k *padWith) ScratchBytes() int64 { return 0 }

func (k *padWith) Run(_ work.Pool, a *work.Args) error {
	y, x, lengths := work.Ints(a.Out[0], k.b*k.t), work.Ints(a.In[0], k.b*k.t), work.Ints(a.In[1], k.b)
	for b, length := range lengths {
		row, count := y[b*k.t:][:k.t], min(max(0, int(length)), k.t)
		copy(row[:count], x[b*k.t:])
		for i := count; i < k.t; i++ {
			row[i] = k.value
		}
	}
	return nil
}

// positionWeights tells the positions of b sequences that count from padding.
type positionWeights struct {
	b, t int
	mean bool
}

func newPositionWeights(n *graph.Node, _ work.Target) (work.Kernel, error) {
	o := n.Op.(ops.PositionWeights)
	return &positionWeights{b: work.In(n, 0).Shape[0], t: o.T, mean: o.Mean}, nil
}

func (k *positionWeights) ScratchBytes() int64 { return 0 }

func (k *positionWeights) Run(_ work.Pool, a *work.Args) error {
	y, lengths := work.Floats(a.Out[0], k.b*k.t), work.Ints(a.In[0], k.b)
	clear(y)
	for b, length := range lengths {
		count, weight := min(max(0, int(length)), k.t), float32(1)
		if k.mean && count > 0 {
			weight = 1 / float32(count)
		}
		for i := range count {
			y[b*k.t+i] = weight
		}
	}
	return nil
}
