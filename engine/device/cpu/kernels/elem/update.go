package elem

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// All updates may run in place. Scalar factors are computed in float64 and rounded
// once; the elements are in float32.
var updateKernels = work.Table{
	"sgd(f32...)->f32":                               newSGD,
	"sgd(f32...)->f32,f32":                           newSGD,
	"adam(f32,f32,f32,f32,i32,f32)->f32,f32,f32":     newAdam,
	"adam(f32,f32,f32,f32,i32,f32,f32)->f32,f32,f32": newAdam,
	"lion(f32,f32,f32,f32)->f32,f32":                 newLion,
	"lion(f32,f32,f32,f32,f32)->f32,f32":             newLion,
	"clip_factor(f32...)->f32":                       newClipFactor,
	"grad_norm(f32...)->f32":                         newGradNorm,
	"learning_rate(i32)->f32":                        newLearningRate,
	"increment(i32)->i32":                            newIncrement,
	"ring_write(f32,i32,f32)->f32":                   newRingWrite,
}

// updateGrain is the elements of a chunk of an update. They are read once, so it
// matters most that few chunks are handed out.
const updateGrain = 16 << 10

// sgd is v' = Momentum v + d, w' = w - lr (v', d + Momentum v', or d).
type sgd struct {
	op      ops.SGD
	n       int
	plain   func(w1, w, g []float32, k *vec.SGDFactors)
	moving  func(w1, v1, w, v, g []float32, k *vec.SGDFactors)
	w, g, v []float32
	w1, v1  []float32
	factors vec.SGDFactors
}

func newSGD(n *graph.Node, on work.Target) (work.Kernel, error) {
	op, f := n.Op.(ops.SGD), on.ISA.Vec()
	k := &sgd{op: op, n: work.In(n, 0).Elems(), plain: f.SGD, moving: f.Momentum}
	if op.Nesterov {
		k.moving = f.Nesterov
	}
	k.factors.Decay, k.factors.Momentum = float32(op.WeightDecay), float32(op.Momentum)
	return k, nil
}

func (k *sgd) ScratchBytes() int64 { return 0 }

func (k *sgd) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *sgd) Bind(a *work.Args) int {
	k.w, k.g, k.factors.Rate = work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Scalar(a.In[2])
	k.w1 = work.Floats(a.Out[0], k.n)
	if k.op.Momentum > 0 {
		k.v, k.v1 = work.Floats(a.In[3], k.n), work.Floats(a.Out[1], k.n)
	}
	k.factors.Grad = gradScale(k.op.Scale, k.op.Clip, a)
	return work.CeilDiv(k.n, updateGrain)
}

// gradScale is Scale*clip; clip is the last input where there is one.
func gradScale(scale float64, clip bool, a *work.Args) float32 {
	if clip {
		scale *= float64(work.Scalar(a.In[len(a.In)-1]))
	}
	return float32(scale)
}

func (k *sgd) End(*work.Args) error { return nil }

func (k *sgd) Chunk(i int) {
	lo, hi := work.Interval(i, updateGrain, k.n)
	if k.op.Momentum == 0 {
		k.plain(k.w1[lo:hi], k.w[lo:hi], k.g[lo:hi], &k.factors)
		return
	}
	k.moving(k.w1[lo:hi], k.v1[lo:hi], k.w[lo:hi], k.v[lo:hi], k.g[lo:hi], &k.factors)
}

// adam is Adam, or AdamW where the op is Decoupled.
type adam struct {
	op         ops.Adam
	n          int
	update     func(w1, m1, v1, w, m, v, g []float32, k *vec.AdamFactors)
	w, g, m, v []float32
	w1, m1, v1 []float32
	factors    vec.AdamFactors
}

func newAdam(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Adam)
	return &adam{op: op, n: work.In(n, 0).Elems(), update: on.ISA.Vec().Adam, factors: vec.AdamFactors{
		Beta1: float32(op.Beta1), Rest1: float32(1 - op.Beta1), Beta2: float32(op.Beta2), Rest2: float32(1 - op.Beta2),
		Epsilon: float32(op.Eps),
	}}, nil
}

func (k *adam) ScratchBytes() int64 { return 0 }

func (k *adam) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *adam) Bind(a *work.Args) int {
	k.w, k.g, k.m, k.v = work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Floats(a.In[2], k.n), work.Floats(a.In[3], k.n)
	k.w1, k.m1, k.v1 = work.Floats(a.Out[0], k.n), work.Floats(a.Out[1], k.n), work.Floats(a.Out[2], k.n)
	t, lr := float64(work.ScalarInt(a.In[4]))+1, float64(work.Scalar(a.In[5]))
	f := &k.factors
	f.Grad = gradScale(k.op.Scale, k.op.Clip, a)
	f.Rate = float32(lr / (1 - math.Pow(k.op.Beta1, t)))
	f.Root = float32(1 / math.Sqrt(1-math.Pow(k.op.Beta2, t)))
	f.Decay, f.Shrink = float32(k.op.WeightDecay), 1
	if k.op.Decoupled {
		f.Decay, f.Shrink = 0, float32(1-lr*k.op.WeightDecay)
	}
	return work.CeilDiv(k.n, updateGrain)
}

func (k *adam) End(*work.Args) error { return nil }

func (k *adam) Chunk(i int) {
	lo, hi := work.Interval(i, updateGrain, k.n)
	k.update(k.w1[lo:hi], k.m1[lo:hi], k.v1[lo:hi], k.w[lo:hi], k.m[lo:hi], k.v[lo:hi], k.g[lo:hi], &k.factors)
}

// lion moves weights by signs.
type lion struct {
	op      ops.Lion
	n       int
	update  func(w1, m1, w, m, g []float32, k *vec.LionFactors)
	w, g, m []float32
	w1, m1  []float32
	factors vec.LionFactors
}

func newLion(n *graph.Node, on work.Target) (work.Kernel, error) {
	op := n.Op.(ops.Lion)
	return &lion{op: op, n: work.In(n, 0).Elems(), update: on.ISA.Vec().Lion, factors: vec.LionFactors{
		Beta1: float32(op.Beta1), Rest1: float32(1 - op.Beta1), Beta2: float32(op.Beta2), Rest2: float32(1 - op.Beta2),
	}}, nil
}

func (k *lion) ScratchBytes() int64 { return 0 }

func (k *lion) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *lion) Bind(a *work.Args) int {
	k.w, k.g, k.m = work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Floats(a.In[2], k.n)
	k.w1, k.m1 = work.Floats(a.Out[0], k.n), work.Floats(a.Out[1], k.n)
	k.factors.Rate = work.Scalar(a.In[3])
	k.factors.Shrink = float32(1 - float64(k.factors.Rate)*k.op.WeightDecay)
	k.factors.Grad = gradScale(k.op.Scale, k.op.Clip, a)
	return work.CeilDiv(k.n, updateGrain)
}

func (k *lion) End(*work.Args) error { return nil }

func (k *lion) Chunk(i int) {
	lo, hi := work.Interval(i, updateGrain, k.n)
	k.update(k.w1[lo:hi], k.m1[lo:hi], k.w[lo:hi], k.m[lo:hi], k.g[lo:hi], &k.factors)
}

// clipFactor is min(1, MaxNorm/(norm+1e-6)); NaN stays NaN.
type clipFactor struct{ op ops.ClipFactor }

func newClipFactor(n *graph.Node, on work.Target) (work.Kernel, error) {
	return clipFactor{n.Op.(ops.ClipFactor)}, nil
}

func (clipFactor) ScratchBytes() int64 { return 0 }

func (k clipFactor) Run(_ work.Pool, a *work.Args) error {
	work.Floats(a.Out[0], 1)[0] = float32(min(1, k.op.MaxNorm/(normOf(k.op.Scale, a.In)+1e-6)))
	return nil
}

// normOf is the norm from sums of squares.
func normOf(scale float64, in [][]byte) float64 {
	sum := 0.0
	for _, b := range in {
		sum += float64(work.Scalar(b))
	}
	return scale * math.Sqrt(sum)
}

// gradNorm is the norm that clipFactor limits.
type gradNorm struct{ op ops.GradNorm }

func newGradNorm(n *graph.Node, on work.Target) (work.Kernel, error) {
	return gradNorm{n.Op.(ops.GradNorm)}, nil
}

func (gradNorm) ScratchBytes() int64 { return 0 }

func (k gradNorm) Run(_ work.Pool, a *work.Args) error {
	work.Floats(a.Out[0], 1)[0] = float32(normOf(k.op.Scale, a.In))
	return nil
}

// learningRate asks the op, so that every device agrees.
type learningRate struct{ op ops.LearningRate }

func newLearningRate(n *graph.Node, on work.Target) (work.Kernel, error) {
	return learningRate{n.Op.(ops.LearningRate)}, nil
}

func (learningRate) ScratchBytes() int64 { return 0 }

func (k learningRate) Run(_ work.Pool, a *work.Args) error {
	work.Floats(a.Out[0], 1)[0] = float32(k.op.At(int(work.ScalarInt(a.In[0]))))
	return nil
}

type increment struct{}

func newIncrement(*graph.Node, work.Target) (work.Kernel, error) { return increment{}, nil }

func (increment) ScratchBytes() int64 { return 0 }

func (increment) Run(_ work.Pool, a *work.Args) error {
	work.Ints(a.Out[0], 1)[0] = work.ScalarInt(a.In[0]) + 1
	return nil
}

// ringWrite writes x to one of the places of a ring.
type ringWrite struct {
	op   ops.RingWrite
	n, x int // elements of the ring, and of x
}

func newRingWrite(n *graph.Node, on work.Target) (work.Kernel, error) {
	return ringWrite{n.Op.(ops.RingWrite), work.In(n, 0).Elems(), work.In(n, 2).Elems()}, nil
}

func (ringWrite) ScratchBytes() int64 { return 0 }

func (k ringWrite) Run(_ work.Pool, a *work.Args) error {
	ring := work.Floats(a.Out[0], k.n)
	if !work.SameMemory(a.In[0], a.Out[0]) {
		copy(ring, work.Floats(a.In[0], k.n))
	}
	places := k.n / k.x
	at := int(work.ScalarInt(a.In[1])) % places
	if at < 0 {
		at += places
	}
	for i, x := range work.Floats(a.In[2], k.x) {
		ring[at*k.x+i] = float32(float64(x) * k.op.Scale)
	}
	return nil
}
