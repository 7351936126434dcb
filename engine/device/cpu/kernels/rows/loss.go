package rows

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Each loss is a sum of float64 terms: the chunks' sums are added in order and rounded
// once.
var lossKernels = work.Table{
	"cross_entropy(f32,i32)->f32,f32":          newCrossEntropy,
	"cross_entropy_grad(f32,i32,f32,f32)->f32": newCrossEntropyGrad,
	"mse(f32,f32)->f32":                        pairSum(mse),
	"bce(f32,f32)->f32":                        pairSum(bce),
	"binary_correct(f32,f32)->f32":             pairSum(binaryCorrect),
	"correct(f32,i32)->f32":                    newCorrect,
	"check_finite(f32)->f32":                   newCheckFinite,
}

// total adds partial sums in order.
func total(partial []float64) float32 {
	sum := 0.0
	for _, v := range partial {
		sum += v
	}
	return float32(sum)
}

// classRows is shared by the kernels over logits [rows, classes].
type classRows struct {
	vec     *vec.Funcs
	r, c    int
	padded  bool        // a row whose target is -1 is padding
	bad     work.Lowest // the first row whose target is no class
	logits  []float32
	targets []int32
	partial []float64 // one sum per chunk
}

func classRowsOf(on work.Target, n *graph.Node) classRows {
	k := classRows{vec: on.ISA.Vec()}
	k.r, k.c = work.RowsOf(work.In(n, 0).Shape)
	return k
}

func (k *classRows) take(a *work.Args) {
	k.bad.Reset()
	k.logits, k.targets = work.Floats(a.In[0], k.r*k.c), work.Ints(a.In[1], k.r)
}

func (k *classRows) chunks() int { return work.CeilDiv(k.r, work.RowGrain(k.c)) }

// row is the logits of row r and its target. An impossible target is remembered, and
// counts as 0.
func (k *classRows) row(r int) (x []float32, target int) {
	t := int(k.targets[r])
	if t < 0 || t >= k.c {
		k.bad.Report(r)
		t = 0
	}
	return k.logits[r*k.c : (r+1)*k.c], t
}

// isPadding reports whether row r is padding.
func (k *classRows) isPadding(r int) bool { return k.padded && k.targets[r] == -1 }

// err is about the first impossible target, if there was one.
func (k *classRows) err() error {
	first := k.bad.Position()
	if first < 0 {
		return nil
	}
	return ops.BadTarget(k.targets[first], first, k.c)
}

type crossEntropy struct {
	classRows
	lse []float32
}

func newCrossEntropy(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &crossEntropy{classRows: classRowsOf(on, n)}
	k.padded = n.Op.(ops.CrossEntropy).Padded
	return k, nil
}

func (k *crossEntropy) ScratchBytes() int64 { return int64(k.chunks()) * 8 }

func (k *crossEntropy) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *crossEntropy) Bind(a *work.Args) int {
	k.take(a)
	k.lse, k.partial = work.Floats(a.Out[1], k.r), work.Doubles(a.Scratch, k.chunks())
	return k.chunks()
}

func (k *crossEntropy) End(a *work.Args) error {
	work.Floats(a.Out[0], 1)[0] = total(k.partial)
	return k.err()
}

func (k *crossEntropy) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.c), k.r)
	sum := 0.0
	for ; lo < hi; lo++ {
		if k.isPadding(lo) {
			k.lse[lo] = 0
			continue
		}
		x, t := k.row(lo)
		lse := k.vec.LogSumExp(x)
		k.lse[lo] = float32(lse)
		sum += lse - float64(x[t])
	}
	k.partial[i] = sum
}

// crossEntropyGrad is (softmax(x) - onehot(target)) dloss.
type crossEntropyGrad struct {
	classRows
	dx, lse []float32
	dloss   float32
}

func newCrossEntropyGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &crossEntropyGrad{classRows: classRowsOf(on, n)}
	k.padded = n.Op.(ops.CrossEntropyGrad).Padded
	return k, nil
}

func (k *crossEntropyGrad) ScratchBytes() int64 { return 0 }

func (k *crossEntropyGrad) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *crossEntropyGrad) Bind(a *work.Args) int {
	k.take(a)
	k.dx, k.lse, k.dloss = work.Floats(a.Out[0], k.r*k.c), work.Floats(a.In[2], k.r), work.Scalar(a.In[3])
	return k.chunks()
}

func (k *crossEntropyGrad) End(*work.Args) error { return k.err() }

func (k *crossEntropyGrad) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.c), k.r)
	for ; lo < hi; lo++ {
		if k.isPadding(lo) {
			clear(k.dx[lo*k.c:][:k.c])
			continue
		}
		x, t := k.row(lo)
		lse, xt := k.lse[lo], float64(x[t])
		dx := k.dx[lo*k.c:][:len(x)]
		k.vec.ExpScaled(dx, x, lse, k.dloss)
		dx[t] = float32((vec.Exp64(xt-float64(lse)) - 1) * float64(k.dloss))
	}
}

// correct counts the rows whose first largest logit is the target.
type correct struct{ classRows }

func newCorrect(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &correct{classRowsOf(on, n)}
	k.padded = n.Op.(ops.Correct).Padded
	return k, nil
}

func (k *correct) ScratchBytes() int64 { return int64(k.chunks()) * 8 }

func (k *correct) Run(p work.Pool, a *work.Args) error { return work.RunLoop(k, p, a) }

func (k *correct) Bind(a *work.Args) int {
	k.take(a)
	k.partial = work.Doubles(a.Scratch, k.chunks())
	return k.chunks()
}

func (k *correct) End(a *work.Args) error {
	work.Floats(a.Out[0], 1)[0] = total(k.partial)
	return k.err()
}

func (k *correct) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.c), k.r)
	sum := 0.0
	for ; lo < hi; lo++ {
		if k.isPadding(lo) {
			continue
		}
		x, t := k.row(lo)
		if firstLargest(k.vec, x, t) {
			sum++
		}
	}
	k.partial[i] = sum
}

// firstLargest reports whether element t is the first of the largest. NaN is larger
// than nothing, and nothing is larger than a first element that is NaN.
func firstLargest(v *vec.Funcs, x []float32, t int) bool {
	if t == 0 && x[0] != x[0] {
		return true
	}
	return x[0] == x[0] && v.Max(x[t:]) <= x[t] && (t == 0 || v.Max(x[:t]) < x[t])
}

// pairSumKernel sums f over two tensors.
type pairSumKernel struct {
	n       int
	f       func(a, b []float32) float64
	a, b    []float32
	partial []float64
}

func pairSum(f func(v *vec.Funcs) func(a, b []float32) float64) work.Constructor {
	return func(n *graph.Node, on work.Target) (work.Kernel, error) {
		return &pairSumKernel{n: work.In(n, 0).Elems(), f: f(on.ISA.Vec())}, nil
	}
}

func mse(v *vec.Funcs) func(a, b []float32) float64 { return v.SquaredDistance }

// bce joins sigmoid and logarithm, so that neither overflows.
func bce(v *vec.Funcs) func(a, b []float32) float64 { return v.LogisticLoss }

func binaryCorrect(*vec.Funcs) func(a, b []float32) float64 { return countCorrect }

func (k *pairSumKernel) ScratchBytes() int64 { return int64(work.CeilDiv(k.n, work.Grain)) * 8 }

func (k *pairSumKernel) Run(p work.Pool, a *work.Args) error {
	c := work.CeilDiv(k.n, work.Grain)
	k.a, k.b, k.partial = work.Floats(a.In[0], k.n), work.Floats(a.In[1], k.n), work.Doubles(a.Scratch, c)
	work.Do(p, c, k)
	work.Floats(a.Out[0], 1)[0] = total(k.partial)
	return nil
}

func (k *pairSumKernel) Chunk(i int) {
	lo, hi := work.Interval(i, work.Grain, k.n)
	k.partial[i] = k.f(k.a[lo:hi], k.b[lo:hi])
}

func countCorrect(logits, target []float32) float64 {
	sum := 0.0
	for i, v := range logits {
		if (v > 0) == (target[i] > 0.5) {
			sum++
		}
	}
	return sum
}

// checkFinite passes a scalar on, or fails.
type checkFinite struct{}

func newCheckFinite(*graph.Node, work.Target) (work.Kernel, error) { return checkFinite{}, nil }

func (checkFinite) ScratchBytes() int64 { return 0 }

func (checkFinite) Run(_ work.Pool, a *work.Args) error {
	v := work.Scalar(a.In[0])
	if v-v != 0 { // Inf-Inf and NaN-NaN are NaN
		return &device.NonFiniteError{}
	}
	work.Floats(a.Out[0], 1)[0] = v
	return nil
}
