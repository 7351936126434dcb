package rows

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var normKernels = work.Table{
	"layer_norm(f32,f32,f32)->f32,f32,f32":              newLayerNorm,
	"layer_norm_grad(f32,f32,f32,f32,f32)->f32,f32,f32": newLayerNormGrad,
	"rms_norm(f32,f32)->f32,f32":                        newRMSNorm,
	"rms_norm_grad(f32,f32,f32,f32)->f32,f32":           newRMSNormGrad,
	"batch_norm(f32,f32,f32)->f32,f32,f32,f32":          newBatchNorm,
	"batch_norm_grad(f32,f32,f32,f32,f32)->f32,f32,f32": newBatchNormGrad,
	"batch_norm_eval(f32,f32,f32,f32,f32)->f32":         newBatchNormEval,
}

// layerNorm normalises rows: y = (x - mean) rstd gamma + beta.
type layerNorm struct {
	vec                            *vec.Funcs
	r, d                           int
	eps                            float64
	x, gamma, beta, y, mean, rstds []float32
	then                           work.Epilogue
}

func newLayerNorm(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &layerNorm{vec: on.ISA.Vec(), eps: n.Op.(ops.LayerNorm).Eps}
	k.r, k.d = work.RowsOf(work.In(n, 0).Shape)
	return k, nil
}

// Then implements [work.Follower].
func (k *layerNorm) Then(e work.Epilogue) { k.then = e }

func (k *layerNorm) ScratchBytes() int64 { return 0 }

func (k *layerNorm) Run(p work.Pool, a *work.Args) error {
	k.x, k.gamma, k.beta = work.Floats(a.In[0], k.r*k.d), work.Floats(a.In[1], k.d), work.Floats(a.In[2], k.d)
	k.y, k.mean, k.rstds = work.Floats(a.Out[0], k.r*k.d), work.Floats(a.Out[1], k.r), work.Floats(a.Out[2], k.r)
	work.Do(p, work.CeilDiv(k.r, work.RowGrain(k.d)), k)
	return nil
}

func (k *layerNorm) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(k.d), k.r)
	for r := lo; r < hi; r++ {
		x, y := k.x[r*k.d:][:k.d], k.y[r*k.d:][:k.d]
		n := float64(k.d)
		mean := k.vec.Sum(x) / n
		rstd := 1 / math.Sqrt(k.vec.SquaresFrom(x, mean)/n+k.eps)
		k.mean[r], k.rstds[r] = float32(mean), float32(rstd)
		k.vec.Normalize(y, x, k.gamma, k.beta, k.mean[r], float32(mean-float64(k.mean[r])), k.rstds[r])
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// layerNormGrad is, per row, dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy
// gamma. A chunk of rows has partial sums of dgamma and dbeta in scratch memory; these
// are added in order.
type layerNormGrad struct {
	vec                       *vec.Funcs
	r, d                      int
	x, gamma, mean, rstds, dy []float32
	dx, dgamma, dbeta         []float32
	sums                      []float64 // [d]
	partials                  []float32 // [chunks, 2, d]
	then                      work.Epilogue
}

// normRows is the most rows that a chunk sums dgamma and dbeta over in float32.
const normRows = 64

func newLayerNormGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := &layerNormGrad{vec: on.ISA.Vec()}
	k.r, k.d = work.RowsOf(work.In(n, 0).Shape)
	return k, nil
}

// grain is the rows of a chunk.
func (k *layerNormGrad) grain() int { return gradGrain(k.r) }

// gradGrain is the rows of a chunk of a norm's gradient over r rows.
func gradGrain(r int) int { return max(8, min(normRows, work.CeilDiv(r, 2*work.EnoughChunks))) }

// Then implements [work.Follower].
func (k *layerNormGrad) Then(e work.Epilogue) { k.then = e }

func (k *layerNormGrad) ScratchBytes() int64 {
	return int64(1+work.CeilDiv(k.r, k.grain())) * int64(k.d) * 8
}

func (k *layerNormGrad) Run(p work.Pool, a *work.Args) error {
	n := k.r * k.d
	k.x, k.gamma, k.dy = work.Floats(a.In[0], n), work.Floats(a.In[1], k.d), work.Floats(a.In[4], n)
	k.mean, k.rstds = work.Floats(a.In[2], k.r), work.Floats(a.In[3], k.r)
	k.dx, k.dgamma, k.dbeta = work.Floats(a.Out[0], n), work.Floats(a.Out[1], k.d), work.Floats(a.Out[2], k.d)
	c := work.CeilDiv(k.r, k.grain())
	k.sums, k.partials = work.Doubles(a.Scratch, k.d), work.Floats(a.Scratch[k.d*8:], c*2*k.d)
	work.Do(p, c, k)
	work.Do(p, work.CeilDiv(k.d, normColumns), (*layerNormColumns)(k))
	return nil
}

func (k *layerNormGrad) Chunk(i int) {
	lo, hi := work.Interval(i, k.grain(), k.r)
	part := k.partials[i*2*k.d:][:2*k.d]
	clear(part)
	dgamma, dbeta := part[:k.d], part[k.d:]
	for r := lo; r < hi; r++ {
		x, dy, dx := k.x[r*k.d:][:k.d], k.dy[r*k.d:][:k.d], k.dx[r*k.d:][:k.d]
		mean, rstd := k.mean[r], k.rstds[r]
		g, gx := k.vec.NormGradSums(dgamma, dbeta, x, dy, k.gamma, mean, rstd)
		n := float64(k.d)
		k.vec.NormGrad(dx, x, dy, k.gamma, mean, rstd, float32(g/n), float32(gx/n))
	}
	if k.then != nil {
		k.then.After(lo, hi, 0, k.d)
	}
}

// layerNormColumns adds up the partial sums of dgamma and dbeta, a chunk for some
// columns.
type layerNormColumns layerNormGrad

const normColumns = 128

func (k *layerNormColumns) Chunk(i int) {
	lo, hi := work.Interval(i, normColumns, k.d)
	for which, out := range [2][]float32{k.dgamma, k.dbeta} {
		from := min(which*k.d+lo, len(k.partials))
		addPartials(k.vec, out[lo:hi], k.sums[lo:hi], k.partials[from:], 2*k.d, len(k.partials)/(2*k.d))
	}
}

// addPartials writes to out the sums of its columns of rows that are stride elements apart.
func addPartials(f *vec.Funcs, out []float32, sums []float64, partials []float32, stride, rows int) {
	clear(sums)
	if rows > 0 {
		f.SumRows(sums, partials, stride, rows)
	}
	for j, v := range sums {
		out[j] = float32(v)
	}
}

// channels is a tensor [N,C,...] seen as N x C planes of s elements.
type channels struct {
	vec     *vec.Funcs
	n, c, s int
}

func channelsOf(on work.Target, n *graph.Node) channels {
	s := work.In(n, 0).Shape
	return channels{vec: on.ISA.Vec(), n: s[0], c: s[1], s: s[2:].Elems()}
}

// plane is the elements of channel c of sample n.
func (k *channels) plane(x []float32, n, c int) []float32 { return x[(n*k.c+c)*k.s:][:k.s] }

// elems is the size of the tensor, and count that of one channel.
func (k *channels) elems() int     { return k.n * k.c * k.s }
func (k *channels) count() float64 { return float64(k.n * k.s) }

// grain is the channels of a chunk: where planes are small, several, so that a sample's
// planes of them are worth fetching.
func (k *channels) grain() int {
	return max(work.RowGrain(k.n*k.s), min(channelGroup, work.CeilDiv(512, max(1, k.s)), k.c/work.EnoughChunks))
}

// channelGroup is the most channels that are gone through together, sample by sample.
const channelGroup = 8

// scaling is the numbers that a channel is normalised with.
type scaling struct{ mean, rest, factor, shift float32 }

func scalingOf(mean float64, rstd, gamma, beta float32) scaling {
	high := float32(mean)
	return scaling{mean: high, rest: float32(mean - float64(high)), factor: rstd * gamma, shift: beta}
}

// normalise is y = (x - mean) rstd gamma + beta for the channels of a group
// from c on.
func (k *channels) normalise(y, x []float32, c int, by []scaling) {
	for n := range k.n {
		for i, s := range by {
			k.vec.Standardize(k.plane(y, n, c+i), k.plane(x, n, c+i), s.mean, s.rest, s.factor, s.shift)
		}
	}
}

// batchNorm normalises channels with the statistics of the microbatch.
type batchNorm struct {
	channels
	eps                                      float64
	x, gamma, beta, y, mean, variance, rstds []float32
}

func newBatchNorm(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := batchNorm{channels: channelsOf(on, n), eps: n.Op.(ops.BatchNorm).Eps}
	if c, ok := newChannelColumns(k.channels, channelsOf(on, n.Whole()).c); ok {
		return &batchNormColumns{c, k}, nil
	}
	return &k, nil
}

func (k *batchNorm) ScratchBytes() int64 { return 0 }

func (k *batchNorm) bind(a *work.Args) {
	k.x, k.gamma, k.beta = work.Floats(a.In[0], k.elems()), work.Floats(a.In[1], k.c), work.Floats(a.In[2], k.c)
	k.y, k.mean = work.Floats(a.Out[0], k.elems()), work.Floats(a.Out[1], k.c)
	k.variance, k.rstds = work.Floats(a.Out[2], k.c), work.Floats(a.Out[3], k.c)
}

// finish writes the statistics of channel c.
func (k *batchNorm) finish(c int, mean, variance float64) {
	rstd := 1 / math.Sqrt(variance+k.eps)
	k.mean[c], k.variance[c], k.rstds[c] = float32(mean), float32(variance), float32(rstd)
}

func (k *batchNorm) Run(p work.Pool, a *work.Args) error {
	k.bind(a)
	work.Do(p, work.CeilDiv(k.c, k.grain()), k)
	return nil
}

func (k *batchNorm) Chunk(i int) {
	lo, hi := work.Interval(i, k.grain(), k.c)
	for ; lo < hi; lo += channelGroup {
		k.group(lo, min(channelGroup, hi-lo))
	}
}

// group normalises some channels from c on.
func (k *batchNorm) group(c, count int) {
	var means, squares [channelGroup]float64
	var by [channelGroup]scaling
	for n := range k.n {
		for i := range count {
			means[i] += k.vec.Sum(k.plane(k.x, n, c+i))
		}
	}
	for i := range count {
		means[i] /= k.count()
	}
	for n := range k.n {
		for i := range count {
			squares[i] += k.vec.SquaresFrom(k.plane(k.x, n, c+i), means[i])
		}
	}
	for i := range count {
		k.finish(c+i, means[i], squares[i]/k.count())
		by[i] = scalingOf(means[i], k.rstds[c+i], k.gamma[c+i], k.beta[c+i])
	}
	k.normalise(k.y, k.x, c, by[:count])
}

// batchNormGrad is, per channel, dx = gamma rstd (dy - mean(dy) - xhat mean(dy xhat)).
type batchNormGrad struct {
	channels
	x, gamma, mean, rstds, dy []float32
	dx, dgamma, dbeta         []float32
}

func newBatchNormGrad(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := batchNormGrad{channels: channelsOf(on, n)}
	if c, ok := newChannelColumns(k.channels, channelsOf(on, n.Whole()).c); ok {
		return &batchNormGradColumns{c, k}, nil
	}
	return &k, nil
}

func (k *batchNormGrad) ScratchBytes() int64 { return 0 }

func (k *batchNormGrad) bind(a *work.Args) {
	k.x, k.gamma, k.dy = work.Floats(a.In[0], k.elems()), work.Floats(a.In[1], k.c), work.Floats(a.In[4], k.elems())
	k.mean, k.rstds = work.Floats(a.In[2], k.c), work.Floats(a.In[3], k.c)
	k.dx, k.dgamma, k.dbeta = work.Floats(a.Out[0], k.elems()), work.Floats(a.Out[1], k.c), work.Floats(a.Out[2], k.c)
}

// finish writes dgamma and dbeta of channel c from its sums of dy (x-mean) and of dy.
// It returns the arguments of [vec.Rows].StandardizeGrad.
func (k *batchNormGrad) finish(c int, dyx, dy float64) (offset, slope, factor float32) {
	rstd := k.rstds[c]
	dg := dyx * float64(rstd)
	k.dgamma[c], k.dbeta[c] = float32(dg), float32(dy)
	return float32(dy / k.count()), float32(dg / k.count() * float64(rstd)), k.gamma[c] * rstd
}

func (k *batchNormGrad) Run(p work.Pool, a *work.Args) error {
	k.bind(a)
	work.Do(p, work.CeilDiv(k.c, k.grain()), k)
	return nil
}

func (k *batchNormGrad) Chunk(i int) {
	lo, hi := work.Interval(i, k.grain(), k.c)
	for ; lo < hi; lo += channelGroup {
		k.group(lo, min(channelGroup, hi-lo))
	}
}

// group computes some channels from c on.
func (k *batchNormGrad) group(c, count int) {
	var dyx, sums [channelGroup]float64
	var by [channelGroup]struct{ offset, slope, factor float32 }
	for n := range k.n {
		for i := range count {
			x, dy := k.plane(k.x, n, c+i), k.plane(k.dy, n, c+i)
			dyx[i] += k.vec.DotFrom(x, dy, float64(k.mean[c+i]))
			sums[i] += k.vec.Sum(dy)
		}
	}
	for i := range count {
		b := &by[i]
		b.offset, b.slope, b.factor = k.finish(c+i, dyx[i], sums[i])
	}
	for n := range k.n {
		for i, b := range by[:count] {
			k.vec.StandardizeGrad(k.plane(k.dx, n, c+i), k.plane(k.x, n, c+i), k.plane(k.dy, n, c+i), k.mean[c+i], b.offset, b.slope, b.factor)
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

func newBatchNormEval(n *graph.Node, on work.Target) (work.Kernel, error) {
	k := batchNormEval{channels: channelsOf(on, n), eps: n.Op.(ops.BatchNormEval).Eps}
	if c, ok := newChannelColumns(k.channels, channelsOf(on, n.Whole()).c); ok {
		return &batchNormEvalColumns{c, k}, nil
	}
	return &k, nil
}

func (k *batchNormEval) ScratchBytes() int64 { return 0 }

func (k *batchNormEval) bind(a *work.Args) {
	k.x, k.gamma, k.beta = work.Floats(a.In[0], k.elems()), work.Floats(a.In[1], k.c), work.Floats(a.In[2], k.c)
	k.mean, k.variance = work.Floats(a.In[3], k.c), work.Floats(a.In[4], k.c)
	k.y = work.Floats(a.Out[0], k.elems())
}

// rstd is that of channel c.
func (k *batchNormEval) rstd(c int) float32 {
	return float32(1 / math.Sqrt(float64(k.variance[c])+k.eps))
}

func (k *batchNormEval) Run(p work.Pool, a *work.Args) error {
	k.bind(a)
	work.Do(p, work.CeilDiv(k.c, k.grain()), k)
	return nil
}

func (k *batchNormEval) Chunk(i int) {
	lo, hi := work.Interval(i, k.grain(), k.c)
	for ; lo < hi; lo += channelGroup {
		var by [channelGroup]scaling
		count := min(channelGroup, hi-lo)
		for i := range count {
			c := lo + i
			by[i] = scalingOf(float64(k.mean[c]), k.rstd(c), k.gamma[c], k.beta[c])
		}
		k.normalise(k.y, k.x, lo, by[:count])
	}
}
