package elem

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
)

var scaledPairKernels = work.Table{
	"mse_grad(f32,f32,f32)->f32": scaledPair(mseGrad),
	"bce_grad(f32,f32,f32)->f32": scaledPair(bceGrad),
}

// scaledPairKernel is y[i] = f(a[i], b[i], d) with a scalar d.
type scaledPairKernel struct {
	n       int
	f       func(y, a, b []float32, d float32)
	y, a, b []float32
	d       float32
}

func scaledPair(f func(v *vec.Funcs) func(y, a, b []float32, d float32)) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) {
		return &scaledPairKernel{n: work.Out(n, 0).Elems(), f: f(on.ISA.Vec())}, nil
	}
}

func (k *scaledPairKernel) ScratchBytes() int64 { return 0 }

func (k *scaledPairKernel) Run(p work.Pool, a *work.Args) error {
	k.y, k.a, k.b, k.d = work.Floats(a.Out[0], k.n), work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Scalar(a.In[2])
	work.Do(p, work.CeilDiv(k.n, work.Grain), k)
	return nil
}

func (k *scaledPairKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.f(k.y[lo:hi], k.a[lo:hi], k.b[lo:hi], k.d)
}

func mseGrad(v *vec.Funcs) func(y, a, b []float32, d float32) { return v.SquaredDistanceGrad }
func bceGrad(v *vec.Funcs) func(y, a, b []float32, d float32) { return v.LogisticLossGrad }
