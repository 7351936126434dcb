package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// rmsNorm scales rows: y = x rstd gamma. To the functions of a layer norm, it is one with
// mean and beta of 0.
type rmsNorm struct {
	vec               *vec.Funcs
	r, d              int
	eps               float64
	x, gamma, y, rstd []float32
	zeros             []float32 // [d]
	then              work.Epilogue
}

func newRMSNorm(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &rmsNorm{vec: on.ISA.Vec(), eps: n.Op.(ops.RMSNorm).Eps}
	k.r, k.d = work.RowsOf(work.In(n, 0).Shape)
	return k, nil
}

// Then implements [work.Follower].
func (k *rmsNorm) Then(e work.Epilogue) { k.then = e }

func (k *rmsNorm) ScratchBytes() int64 { return int64(k.d) * 4 }

func (k *rmsNorm) Run(p work.Pool, a *work.Args) error {
	k.x, k.gamma = work.Floats(a.In[0], k.r*k.d), work.Floats(a.In[1], k.d)
	k.y, k.rstd = work.Floats(a.Out[0], k.r*k.d), work.Floats(a.Out[1], k.r)
	k.zeros = work.Floats(a.Scratch, k.d)
	clear(k.zeros)
	work.Do(p, work.CeilDiv(k.r, work.RowGrain(k.d)), k)
	return nil
}

func (k *rmsNorm) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.d), k.r)
	for r := lo; r < hi; r++ {
		x, y := k.x[r*k.d:][:k.d], k.y[r*k.d:][:k.d]
		k.rstd[r] = float32(1 / math.Sqrt(k.vec.SquaresFrom(x, 0)/float64(k.d)+k.eps))
		k.vec.Normalize(y, x, k.gamma, k.zeros, 0, 0, k.rstd[r])
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// rmsNormGrad is, per row, dx = rstd (g - h mean(g h)) with g = dy gamma and h = x rstd. A
// chunk of rows has a partial sum of dgamma in scratch memory; these are added in order.
type rmsNormGrad struct {
	vec                *vec.Funcs
	r, d               int
	x, gamma, rstd, dy []float32
	dx, dgamma         []float32
	sums               []float64 // [d]
	partials           []float32 // [chunks, 2, d]: of dgamma, and what a layer norm would have of dbeta
	then               work.Epilogue
}

func newRMSNormGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &rmsNormGrad{vec: on.ISA.Vec()}
	k.r, k.d = work.RowsOf(work.In(n, 0).Shape)
	return k, nil
}

// grain is the rows of a chunk.
func (k *rmsNormGrad) grain() int { return gradGrain(k.r) }

// Then implements [work.Follower].
func (k *rmsNormGrad) Then(e work.Epilogue) { k.then = e }

func (k *rmsNormGrad) ScratchBytes() int64 {
	return int64(1+work.CeilDiv(k.r, k.grain())) * int64(k.d) * 8
}

func (k *rmsNormGrad) Run(p work.Pool, a *work.Args) error {
	n := k.r * k.d
	k.x, k.gamma, k.dy = work.Floats(a.In[0], n), work.Floats(a.In[1], k.d), work.Floats(a.In[3], n)
	k.rstd, k.dx, k.dgamma = work.Floats(a.In[2], k.r), work.Floats(a.Out[0], n), work.Floats(a.Out[1], k.d)
	c := work.CeilDiv(k.r, k.grain())
	k.sums, k.partials = work.Doubles(a.Scratch, k.d), work.Floats(a.Scratch[k.d*8:], c*2*k.d)
	work.Do(p, c, k)
	work.Do(p, work.CeilDiv(k.d, normColumns), (*rmsNormColumns)(k))
	return nil
}

func (k *rmsNormGrad) Chunk(i int) {
	lo, hi := work.Interval(i, k.grain(), k.r)
	part := k.partials[i*2*k.d:][:2*k.d]
	clear(part)
	for r := lo; r < hi; r++ {
		x, dy, dx := k.x[r*k.d:][:k.d], k.dy[r*k.d:][:k.d], k.dx[r*k.d:][:k.d]
		_, gh := k.vec.NormGradSums(part[:k.d], part[k.d:], x, dy, k.gamma, 0, k.rstd[r])
		k.vec.NormGrad(dx, x, dy, k.gamma, 0, k.rstd[r], 0, float32(gh/float64(k.d)))
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// rmsNormColumns adds up the partial sums of dgamma, a chunk for some columns.
type rmsNormColumns rmsNormGrad

func (k *rmsNormColumns) Chunk(i int) {
	lo, hi := work.Interval(i, normColumns, k.d)
	addPartials(k.vec, k.dgamma[lo:hi], k.sums[lo:hi], k.partials[min(lo, len(k.partials)):], 2*k.d, len(k.partials)/(2*k.d))
}
