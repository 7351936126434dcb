package kernels

import (
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var normKernels = map[string]constructor{
	"layer_norm(f32,f32,f32)->f32,f32,f32":              newLayerNorm,
	"layer_norm_grad(f32,f32,f32,f32,f32)->f32,f32,f32": newLayerNormGrad,
	"batch_norm(f32,f32,f32)->f32,f32,f32,f32":          newBatchNorm,
	"batch_norm_grad(f32,f32,f32,f32,f32)->f32,f32,f32": newBatchNormGrad,
	"batch_norm_eval(f32,f32,f32,f32,f32)->f32":         newBatchNormEval,
}

// layerNorm normalises rows: y = (x - mean) rstd gamma + beta.
type layerNorm struct {
	r, d                           int
	eps                            float64
	x, gamma, beta, y, mean, rstds []float32
}

func newLayerNorm(n *graph.Node) (Kernel, error) {
	k := &layerNorm{eps: n.Op.(ops.LayerNorm).Eps}
	k.r, k.d = rows(in(n, 0).Shape)
	return k, nil
}

func (k *layerNorm) ScratchBytes() int64 { return 0 }

func (k *layerNorm) Run(p Pool, a *Args) error {
	k.x, k.gamma, k.beta = floats(a.In[0], k.r*k.d), floats(a.In[1], k.d), floats(a.In[2], k.d)
	k.y, k.mean, k.rstds = floats(a.Out[0], k.r*k.d), floats(a.Out[1], k.r), floats(a.Out[2], k.r)
	do(p, chunks(k.r, rowGrain(k.d)), k)
	return nil
}

func (k *layerNorm) Chunk(i int) {
	lo, hi := span(i, rowGrain(k.d), k.r)
	for ; lo < hi; lo++ {
		x, y := k.x[lo*k.d:][:k.d], k.y[lo*k.d:][:k.d]
		n := float64(k.d)
		mean := sum(x) / n
		rstd := 1 / math.Sqrt(sumSquaredFrom(x, mean)/n+k.eps)
		k.mean[lo], k.rstds[lo] = float32(mean), float32(rstd)
		gamma, beta := k.gamma[:len(x)], k.beta[:len(x)]
		for j, v := range x {
			y[j] = float32((float64(v)-mean)*rstd)*gamma[j] + beta[j]
		}
	}
}

// sum is the float64 sum of x, in four interleaved parts so that additions
// overlap.
func sum(x []float32) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		a += float64(x[0])
		b += float64(x[1])
		c += float64(x[2])
		d += float64(x[3])
	}
	for _, v := range x {
		a += float64(v)
	}
	return (a + b) + (c + d)
}

// sumSquaredFrom is the sum of (x - mean)^2, in four interleaved parts.
func sumSquaredFrom(x []float32, mean float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x = x[4:] {
		p, q, r, s := float64(x[0])-mean, float64(x[1])-mean, float64(x[2])-mean, float64(x[3])-mean
		a += p * p
		b += q * q
		c += r * r
		d += s * s
	}
	for _, v := range x {
		p := float64(v) - mean
		a += p * p
	}
	return (a + b) + (c + d)
}

// layerNormGrad first sums dgamma and dbeta over rows, a chunk per 32
// columns, and then computes dx row by row:
// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma.
type layerNormGrad struct {
	r, d                      int
	x, gamma, mean, rstds, dy []float32
	dx, dgamma, dbeta         []float32
}

// normColumns is how many columns of dgamma and dbeta a chunk sums.
const normColumns = 32

func newLayerNormGrad(n *graph.Node) (Kernel, error) {
	k := &layerNormGrad{}
	k.r, k.d = rows(in(n, 0).Shape)
	return k, nil
}

func (k *layerNormGrad) ScratchBytes() int64 { return 0 }

func (k *layerNormGrad) Run(p Pool, a *Args) error {
	n := k.r * k.d
	k.x, k.gamma, k.dy = floats(a.In[0], n), floats(a.In[1], k.d), floats(a.In[4], n)
	k.mean, k.rstds = floats(a.In[2], k.r), floats(a.In[3], k.r)
	k.dx, k.dgamma, k.dbeta = floats(a.Out[0], n), floats(a.Out[1], k.d), floats(a.Out[2], k.d)
	do(p, chunks(k.d, normColumns), (*layerNormColumns)(k))
	do(p, chunks(k.r, rowGrain(k.d)), k)
	return nil
}

// layerNormColumns is the loop over columns.
type layerNormColumns layerNormGrad

func (k *layerNormColumns) Chunk(i int) {
	lo, hi := span(i, normColumns, k.d)
	var dg, db [normColumns]float64
	for r := range k.r {
		x, dy := k.x[r*k.d+lo:r*k.d+hi], k.dy[r*k.d+lo:r*k.d+hi]
		mean, rstd := k.mean[r], k.rstds[r]
		for j, v := range x {
			d := float64(dy[j])
			dg[j&(normColumns-1)] += d * float64((v-mean)*rstd)
			db[j&(normColumns-1)] += d
		}
	}
	for j := lo; j < hi; j++ {
		k.dgamma[j], k.dbeta[j] = float32(dg[j-lo]), float32(db[j-lo])
	}
}

func (k *layerNormGrad) Chunk(i int) {
	lo, hi := span(i, rowGrain(k.d), k.r)
	for ; lo < hi; lo++ {
		x, dy, dx := k.x[lo*k.d:][:k.d], k.dy[lo*k.d:][:k.d], k.dx[lo*k.d:][:k.d]
		mean, rstd, gamma := k.mean[lo], k.rstds[lo], k.gamma[:k.d]
		var sg, sgx float64
		for j, v := range x {
			g := float64(dy[j] * gamma[j])
			sg += g
			sgx += g * float64((v-mean)*rstd)
		}
		mg, mgx := float32(sg/float64(k.d)), float32(sgx/float64(k.d))
		for j, v := range x {
			dx[j] = rstd * (dy[j]*gamma[j] - mg - (v-mean)*rstd*mgx)
		}
	}
}

// channels is a tensor [N,C,...] seen as N x C planes of s elements.
type channels struct{ n, c, s int }

func channelsOf(n *graph.Node) channels {
	s := in(n, 0).Shape
	return channels{s[0], s[1], s[2:].Elems()}
}

// plane is the elements of channel c of sample n.
func (k *channels) plane(x []float32, n, c int) []float32 { return x[(n*k.c+c)*k.s:][:k.s] }

// elems is the size of the tensor, and count that of one channel.
func (k *channels) elems() int     { return k.n * k.c * k.s }
func (k *channels) count() float64 { return float64(k.n * k.s) }

// grain is how many channels make a chunk.
func (k *channels) grain() int { return rowGrain(k.n * k.s) }

// batchNorm normalises channels with the statistics of the microbatch.
type batchNorm struct {
	channels
	eps                                      float64
	x, gamma, beta, y, mean, variance, rstds []float32
}

func newBatchNorm(n *graph.Node) (Kernel, error) {
	return &batchNorm{channels: channelsOf(n), eps: n.Op.(ops.BatchNorm).Eps}, nil
}

func (k *batchNorm) ScratchBytes() int64 { return 0 }

func (k *batchNorm) Run(p Pool, a *Args) error {
	k.x, k.gamma, k.beta = floats(a.In[0], k.elems()), floats(a.In[1], k.c), floats(a.In[2], k.c)
	k.y, k.mean = floats(a.Out[0], k.elems()), floats(a.Out[1], k.c)
	k.variance, k.rstds = floats(a.Out[2], k.c), floats(a.Out[3], k.c)
	do(p, chunks(k.c, k.grain()), k)
	return nil
}

func (k *batchNorm) Chunk(i int) {
	lo, hi := span(i, k.grain(), k.c)
	for c := lo; c < hi; c++ {
		var s, ss float64
		for n := range k.n {
			s += sum(k.plane(k.x, n, c))
		}
		mean := s / k.count()
		for n := range k.n {
			ss += sumSquaredFrom(k.plane(k.x, n, c), mean)
		}
		variance := ss / k.count()
		rstd := 1 / math.Sqrt(variance+k.eps)
		k.mean[c], k.variance[c], k.rstds[c] = float32(mean), float32(variance), float32(rstd)
		for n := range k.n {
			normalise(k.plane(k.y, n, c), k.plane(k.x, n, c), mean, rstd, k.gamma[c], k.beta[c])
		}
	}
}

// normalise is y = (x - mean) rstd gamma + beta.
func normalise(y, x []float32, mean, rstd float64, gamma, beta float32) {
	y = y[:len(x)]
	for j, v := range x {
		y[j] = float32((float64(v)-mean)*rstd)*gamma + beta
	}
}

// batchNormGrad is, per channel, dx = gamma rstd (dy - mean(dy) - xhat mean(dy xhat)).
type batchNormGrad struct {
	channels
	x, gamma, mean, rstds, dy []float32
	dx, dgamma, dbeta         []float32
}

func newBatchNormGrad(n *graph.Node) (Kernel, error) {
	return &batchNormGrad{channels: channelsOf(n)}, nil
}

func (k *batchNormGrad) ScratchBytes() int64 { return 0 }

func (k *batchNormGrad) Run(p Pool, a *Args) error {
	k.x, k.gamma, k.dy = floats(a.In[0], k.elems()), floats(a.In[1], k.c), floats(a.In[4], k.elems())
	k.mean, k.rstds = floats(a.In[2], k.c), floats(a.In[3], k.c)
	k.dx, k.dgamma, k.dbeta = floats(a.Out[0], k.elems()), floats(a.Out[1], k.c), floats(a.Out[2], k.c)
	do(p, chunks(k.c, k.grain()), k)
	return nil
}

func (k *batchNormGrad) Chunk(i int) {
	lo, hi := span(i, k.grain(), k.c)
	for c := lo; c < hi; c++ {
		mean, rstd := k.mean[c], k.rstds[c]
		var dg, db float64
		for n := range k.n {
			x, dy := k.plane(k.x, n, c), k.plane(k.dy, n, c)
			for j, v := range x {
				d := float64(dy[j])
				dg += d * float64((v-mean)*rstd)
				db += d
			}
		}
		k.dgamma[c], k.dbeta[c] = float32(dg), float32(db)
		mg, mb, f := float32(dg/k.count()), float32(db/k.count()), k.gamma[c]*rstd
		for n := range k.n {
			x, dy, dx := k.plane(k.x, n, c), k.plane(k.dy, n, c), k.plane(k.dx, n, c)
			for j, v := range x {
				dx[j] = f * (dy[j] - mb - (v-mean)*rstd*mg)
			}
		}
	}
}

// batchNormEval normalises with given statistics.
type batchNormEval struct {
	channels
	eps                            float64
	x, gamma, beta, mean, variance []float32
	y                              []float32
}

func newBatchNormEval(n *graph.Node) (Kernel, error) {
	return &batchNormEval{channels: channelsOf(n), eps: n.Op.(ops.BatchNormEval).Eps}, nil
}

func (k *batchNormEval) ScratchBytes() int64 { return 0 }

func (k *batchNormEval) Run(p Pool, a *Args) error {
	k.x, k.gamma, k.beta = floats(a.In[0], k.elems()), floats(a.In[1], k.c), floats(a.In[2], k.c)
	k.mean, k.variance = floats(a.In[3], k.c), floats(a.In[4], k.c)
	k.y = floats(a.Out[0], k.elems())
	do(p, chunks(k.c, k.grain()), k)
	return nil
}

func (k *batchNormEval) Chunk(i int) {
	lo, hi := span(i, k.grain(), k.c)
	for c := lo; c < hi; c++ {
		rstd := 1 / math.Sqrt(float64(k.variance[c])+k.eps)
		for n := range k.n {
			normalise(k.plane(k.y, n, c), k.plane(k.x, n, c), float64(k.mean[c]), rstd, k.gamma[c], k.beta[c])
		}
	}
}
