package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/dropout"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var dropoutKernels = work.Table{"dropout(f32,i32,i32)->f32": newDropout}

// Dropout copies its input and drops elements.
type Dropout struct {
	n, size int
	drop    dropout.Dropper
	y, x    []float32
}

func newDropout(n *graph.Node, on work.Target) (work.Kernel, error) {
	op, s := n.Op.(ops.Dropout), work.In(n, 0).Shape
	return &Dropout{n: s.Elems(), size: s[1:].Elems(), drop: dropout.NewDropper(on.ISA, op.Key(), op.P)}, nil
}

func (k *Dropout) ScratchBytes() int64 { return 0 }

// Bind reads the scalars of a run.
func (k *Dropout) Bind(step, base []byte) { k.drop.Bind(step, base, k.size) }

func (k *Dropout) Run(p work.Pool, a *work.Args) error {
	k.y, k.x = work.Floats(a.Out[0], k.n), work.Floats(a.In[0], k.n)
	k.Bind(a.In[1], a.In[2])
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *Dropout) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.DropFrom(k.y[lo:hi], k.x[lo:hi], lo)
}

// DropFrom writes y from x, whose first element is number at of the microbatch.
func (k *Dropout) DropFrom(y, x []float32, at int) {
	copy(y, x)
	k.drop.Apply(y, k.drop.Index(0, at))
}
