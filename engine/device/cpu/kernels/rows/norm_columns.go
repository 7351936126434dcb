package rows

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// channelColumns is channels of small planes seen as a matrix of n rows, in which the
// plane of a channel is s columns. A chunk is some channels and all rows; where that
// makes too few chunks, some rows. Sums over rows are in float64, and partial sums are
// added in order.
type channelColumns struct {
	channels
	per, height int          // channels and rows of a chunk
	sums        [2][]float64 // each [partials, c*s]
	means       []float64    // [c*s]
	tables      [4][]float32 // each [c*s]: the numbers that rows are scaled with
	steps       columnSteps
	at          columnStep // the step that is running, where rows are shared
}

// columnStep is a pass over the columns. Those over rows have all chunks; the others,
// over channels alone, only as many as there are groups of channels.
type columnStep int

const (
	stepSums    columnStep = iota // over rows: sums for the means
	stepMeans                     // over channels
	stepSquares                   // over rows: the other sums for the factors
	stepFactors                   // over channels
	stepScale                     // over rows: the output
)

// columnSteps does step s for channels c0..c1, and in a pass over rows for rows r0..r1,
// the rows of partial sum part.
type columnSteps interface {
	step(s columnStep, part, c0, c1, r0, r1 int)
}

const (
	smallPlane = 32      // most elements of a plane that is better seen as columns
	normWork   = 1 << 15 // fewest elements of a chunk where rows are shared
)

// newChannelColumns reports whether the planes of channels, of which all are so many, are small.
func newChannelColumns(c channels, all int) (k channelColumns, ok bool) {
	k.channels = c
	k.c = all
	if k.s > smallPlane || k.elems() == 0 {
		return k, false
	}
	k.per = min(max(work.CeilDiv(k.c, work.EnoughChunks/2), work.CeilDiv(64, k.s)), work.CeilDiv(256, k.s))
	parts := max(1, min(work.EnoughChunks/k.across(), k.n*k.per*k.s/normWork))
	k.height = work.CeilDiv(k.n, parts)
	k.c = c.c
	return k, true
}

// across is the groups that channels are cut into, and partials the ranges that rows
// are cut into; width is the columns.
func (k *channelColumns) across() int   { return work.CeilDiv(k.c, k.per) }
func (k *channelColumns) partials() int { return work.CeilDiv(k.n, k.height) }
func (k *channelColumns) width() int    { return k.c * k.s }

func (k *channelColumns) ScratchBytes() int64 {
	return int64(k.width()) * int64(8*(2*k.partials()+1)+4*len(k.tables))
}

// bind cuts scratch memory into pieces.
func (k *channelColumns) bind(steps columnSteps, scratch []byte) {
	k.steps = steps
	w, parts := k.width(), k.partials()
	d := work.Doubles(scratch, (2*parts+1)*w)
	k.sums[0], k.sums[1], k.means = d[:parts*w], d[parts*w:2*parts*w], d[2*parts*w:]
	f := work.Floats(scratch[len(d)*8:], len(k.tables)*w)
	for i := range k.tables {
		k.tables[i] = f[i*w:][:w]
	}
}

// run does all steps from one on: chunk by chunk, or where rows are shared one step
// after the other.
func (k *channelColumns) run(p work.Pool, first columnStep) {
	k.at = first
	if k.partials() == 1 {
		work.Do(p, k.across(), k)
		return
	}
	for ; k.at <= stepScale; k.at++ {
		n := k.across()
		if k.at%2 == 0 {
			n *= k.partials()
		}
		work.Do(p, n, k)
	}
}

func (k *channelColumns) Chunk(i int) {
	part := i / k.across()
	c0, c1 := work.Interval(i%k.across(), k.per, k.c)
	r0, r1 := work.Interval(part, k.height, k.n)
	last := k.at
	if k.partials() == 1 {
		last = stepScale
	}
	for s := k.at; s <= last; s++ {
		k.steps.step(s, part, c0, c1, r0, r1)
	}
}

// rowsAt is a matrix from row r of the columns of channel c on.
func (k *channelColumns) rowsAt(x []float32, r, c int) []float32 { return x[r*k.width()+c*k.s:] }

// acc is a partial sum of the columns of some channels.
func (k *channelColumns) acc(which, part, c0, c1 int) []float64 {
	return k.sums[which][part*k.width():][c0*k.s : c1*k.s]
}

// total is the sum of a channel's columns over all partial sums.
func (k *channelColumns) total(which, c int) float64 {
	sum := 0.0
	for part := range k.partials() {
		for _, v := range k.acc(which, part, c, c+1) {
			sum += v
		}
	}
	return sum
}

// set gives the columns of a channel their numbers in the tables.
func (k *channelColumns) set(c int, numbers [4]float32) {
	for i, v := range numbers {
		work.Fill(k.tables[i][c*k.s:][:k.s], v)
	}
}

// setMean gives the columns of a channel their mean.
func (k *channelColumns) setMean(c int, mean float64) {
	for j := c * k.s; j < (c+1)*k.s; j++ {
		k.means[j] = mean
	}
}

// scale is y = (x - mean) rstd gamma + beta by the tables.
func (k *channelColumns) scale(y, x []float32, c0, c1, r0, r1 int) {
	t, a, b := &k.tables, c0*k.s, c1*k.s
	k.vec.ScaleRows(k.rowsAt(y, r0, c0), k.rowsAt(x, r0, c0), t[0][a:b], t[1][a:b], t[2][a:b], t[3][a:b], k.width(), r1-r0)
}

// setScale sets the tables of channel c for scale.
func (k *channelColumns) setScale(c int, mean float64, rstd, gamma, beta float32) {
	high := float32(mean)
	k.set(c, [4]float32{high, float32(mean - float64(high)), rstd * gamma, beta})
}

// batchNormColumns is batchNorm over small planes.
type batchNormColumns struct {
	channelColumns
	of batchNorm
}

func (k *batchNormColumns) Run(p work.Pool, a *work.Args) error {
	k.of.bind(a)
	k.bind(k, a.Scratch)
	k.run(p, stepSums)
	return nil
}

func (k *batchNormColumns) step(s columnStep, part, c0, c1, r0, r1 int) {
	n := &k.of
	switch s {
	case stepSums:
		acc := k.acc(0, part, c0, c1)
		clear(acc)
		k.vec.SumRows(acc, k.rowsAt(n.x, r0, c0), k.width(), r1-r0)
	case stepMeans:
		for c := c0; c < c1; c++ {
			k.setMean(c, k.total(0, c)/k.count())
		}
	case stepSquares:
		acc := k.acc(1, part, c0, c1)
		clear(acc)
		k.vec.SquaresRows(acc, k.means[c0*k.s:], k.rowsAt(n.x, r0, c0), k.width(), r1-r0)
	case stepFactors:
		for c := c0; c < c1; c++ {
			mean := k.means[c*k.s]
			n.finish(c, mean, k.total(1, c)/k.count())
			k.setScale(c, mean, n.rstds[c], n.gamma[c], n.beta[c])
		}
	case stepScale:
		k.scale(n.y, n.x, c0, c1, r0, r1)
	}
}

// batchNormGradColumns is batchNormGrad over small planes.
type batchNormGradColumns struct {
	channelColumns
	of batchNormGrad
}

func (k *batchNormGradColumns) Run(p work.Pool, a *work.Args) error {
	k.of.bind(a)
	k.bind(k, a.Scratch)
	k.run(p, stepMeans)
	return nil
}

func (k *batchNormGradColumns) step(s columnStep, part, c0, c1, r0, r1 int) {
	n := &k.of
	switch s {
	case stepMeans:
		for c := c0; c < c1; c++ {
			k.setMean(c, float64(n.mean[c]))
		}
	case stepSquares:
		dyx, sum := k.acc(0, part, c0, c1), k.acc(1, part, c0, c1)
		clear(dyx)
		clear(sum)
		k.vec.DotRows(dyx, k.means[c0*k.s:], k.rowsAt(n.x, r0, c0), k.rowsAt(n.dy, r0, c0), k.width(), r1-r0)
		k.vec.SumRows(sum, k.rowsAt(n.dy, r0, c0), k.width(), r1-r0)
	case stepFactors:
		for c := c0; c < c1; c++ {
			offset, slope, factor := n.finish(c, k.total(0, c), k.total(1, c))
			k.set(c, [4]float32{n.mean[c], offset, slope, factor})
		}
	case stepScale:
		t, a, b := &k.tables, c0*k.s, c1*k.s
		k.vec.ScaleGrad(k.rowsAt(n.dx, r0, c0), k.rowsAt(n.x, r0, c0), k.rowsAt(n.dy, r0, c0),
			t[0][a:b], t[1][a:b], t[2][a:b], t[3][a:b], k.width(), r1-r0)
	}
}

// batchNormEvalColumns is batchNormEval over small planes.
type batchNormEvalColumns struct {
	channelColumns
	of batchNormEval
}

func (k *batchNormEvalColumns) Run(p work.Pool, a *work.Args) error {
	k.of.bind(a)
	k.bind(k, a.Scratch)
	k.run(p, stepFactors)
	return nil
}

func (k *batchNormEvalColumns) step(s columnStep, _, c0, c1, r0, r1 int) {
	n := &k.of
	if s == stepScale {
		k.scale(n.y, n.x, c0, c1, r0, r1)
		return
	}
	for c := c0; c < c1; c++ {
		k.setScale(c, float64(n.mean[c]), n.rstd(c), n.gamma[c], n.beta[c])
	}
}
