package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var averagedKernels = work.Table{
	"averaged(f32...)->f32,f32":                                  newAveraged,
	"averaged(f32...)->f32,f32,f32":                              newAveraged,
	"averaged(f32,f32,f32,f32,f32,i32,f32)->f32,f32,f32,f32":     newAveraged,
	"averaged(f32,f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32,f32": newAveraged,
}

// averaged averages each chunk of weights once the update has made it.
type averaged struct {
	work.Loop
	args      work.Args
	n         int
	share     float32 // of the new weight
	lerp      func(z, a, b []float32, t float32)
	w1, a, a1 []float32
}

func newAveraged(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Averaged)
	in, out := ops.WithoutAverage(n.In), ops.WithoutAverage(n.Out)
	k := &averaged{n: work.In(n, 0).Elems(), share: float32(1 - op.Decay), lerp: on.ISA.Vec().Lerp,
		args: work.Args{In: make([][]byte, len(in)), Out: make([][]byte, len(out))}}
	of, err := work.New(updateKernels)(&graph.Node{ID: n.ID, Op: op.Op, In: in, Out: out, Phase: n.Phase, Layer: n.Layer}, on)
	if err == nil {
		k.Loop = of.(work.Loop) // all updates of weights are loops over chunks of updateGrain
	}
	return k, err
}

func (k *averaged) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *averaged) Bind(a *work.Args) int {
	k.a, k.w1, k.a1 = work.Floats(a.In[1], k.n), work.Floats(a.Out[0], k.n), work.Floats(a.Out[1], k.n)
	in, out := k.args.In[:0], k.args.Out[:0]
	k.args.In, k.args.Out = append(append(in, a.In[0]), a.In[2:]...), append(append(out, a.Out[0]), a.Out[2:]...)
	k.args.Scratch = a.Scratch
	return k.Loop.Bind(&k.args)
}

func (k *averaged) Chunk(i int) {
	k.Loop.Chunk(i)
	lo, hi := work.Interval(i, updateGrain, k.n)
	k.lerp(k.a1[lo:hi], k.a[lo:hi], k.w1[lo:hi], k.share)
}
