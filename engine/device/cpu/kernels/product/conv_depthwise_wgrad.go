package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convDepthwiseWGrad is dw of a depthwise convolution. Each weight of a channel has a
// vector of sums for some of the samples, in scratch memory, to which the sums of one
// band after another are added. At last the partial sums, and their lanes, are added
// up in order.
type convDepthwiseWGrad struct {
	paddedBands
	vec               *vec.Funcs
	samples           int
	partials          int // of a channel
	samplesPerPartial int
	perChunk          int      // channels
	columns           *columns // where images are read in place
	sums, dy, dw      []float32
}

// newConvDepthwiseWGrad returns nil where channels do not stand alone, or a band would
// not fit.
func newConvDepthwiseWGrad(s *convShape) *convDepthwiseWGrad {
	of := newConvDepthwise(s, s.forward())
	if of == nil {
		return nil
	}
	d := &convDepthwiseWGrad{paddedBands: of.paddedBands, vec: s.on.ISA.Vec(), samples: s.n}
	d.samplesPerPartial = work.CeilDiv(s.n, min(s.n, work.CeilDiv(work.EnoughChunks, s.groups)))
	d.partials = work.CeilDiv(s.n, d.samplesPerPartial)
	d.perChunk = max(1, min(minChunkWork/(d.samplesPerPartial*s.py()*d.kk()), d.groups*d.partials/work.EnoughChunks, d.channelsPerWrite()))
	if d.im.hasColumns() {
		d.cutColumns()
		d.perChunk = d.columns.paired(d.perChunk)
	}
	return d
}

// cutColumns puts each column into its lane of the sums.
func (d *convDepthwiseWGrad) cutColumns() {
	ow := d.im.ow
	of := columnsOf(d.isa, ow)
	for c := 0; c < ow; c += of.lanes {
		n := min(of.lanes, ow-c)
		of.addWindows(&d.im, c, n)
		of.addMask(func(l int) bool { return l < n }) // of y
	}
	of.addPairs(&d.im)
	d.columns = &of
}

// partialSums is the sums of a channel for the samples of one partial sum.
func (d *convDepthwiseWGrad) partialSums() int { return d.kk() * isaSizes[d.isa].lanes }

func (d *convDepthwiseWGrad) scratch() int { return d.groups * d.partials * d.partialSums() }

func (d *convDepthwiseWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	d.src, d.dy, d.dw, d.sums = x, dy, dw, scratch
	work.Do(p, work.CeilDiv(d.groups, d.perChunk)*d.partials, d)
	work.Do(p, work.CeilDiv(d.groups, d.channelsPerWrite()), (*convDepthwiseWGradWrite)(d))
}

// Chunk computes a partial sum of some channels. A sample's planes lie one behind another.
func (d *convDepthwiseWGrad) Chunk(i int) {
	c0, c1 := work.Interval(i/d.partials, d.perChunk, d.groups)
	part := i % d.partials
	for c := c0; c < c1; c++ {
		clear(d.sumsOf(c, part))
	}
	for s := part * d.samplesPerPartial; s < min((part+1)*d.samplesPerPartial, d.samples); s++ {
		switch {
		case d.columns == nil:
			for c := c0; c < c1; c++ {
				d.sumCopies(d.sumsOf(c, part), s*d.groups+c)
			}
		case d.bands == 1:
			d.sumColumns(c0, part, s, c1-c0, 0, d.im.oh)
		default:
			for at := c0 * d.bands; at < c1*d.bands; at++ {
				r0, r1 := d.rows(at % d.bands)
				d.sumColumns(at/d.bands, part, s, 1, r0, r1)
			}
		}
	}
}

// sumsOf is the sums of a channel for the samples of one partial sum.
func (d *convDepthwiseWGrad) sumsOf(c, part int) []float32 {
	return d.sums[(c*d.partials+part)*d.partialSums():][:d.partialSums()]
}

// sumCopies adds the sums of a plane, whose bands it copies.
func (d *convDepthwiseWGrad) sumCopies(all []float32, plane int) {
	ws := takeWorkspace()
	oh, ow, sums := d.im.oh, d.im.ow, ws.rows[:len(all)]
	for r := 0; r < oh; r += d.bandRows {
		rows := min(d.bandRows, oh-r)
		d.copyBand(ws.b[:bandInput], plane, r, r+rows)
		clear(sums)
		dy := d.dy[plane*oh*ow+r*ow:][:rows*ow]
		depthGrad(d.isa, &sums[0], &dy[0], ow, &ws.b[0], d.line(), &d.taps[0], d.kk(), rows, ow)
		d.vec.Add(all, all, sums)
	}
	ws.giveBack()
}

// sumColumns adds the sums of rows r0 to r1 of n channels of a sample, from channel c on.
func (d *convDepthwiseWGrad) sumColumns(c, part, sample, n, r0, r1 int) {
	m, lanes, step, of := &d.im, isaSizes[d.isa].lanes, d.partials*d.partialSums(), d.columns
	px, py, first := m.h*m.w, m.oh*m.ow, r0*m.mul+m.off
	if pairs := n / 2; of.layout != nil && d.bands == 1 && pairs > 0 {
		x, y, all := d.operands(c, part, sample, 2*pairs)
		if m.mul == 2 {
			depth3GradPairsOther(&all[0], lanes, step, &y[0], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w, &of.layout[0], r1-r0, pairs)
		} else {
			depth3GradPairs(&all[0], lanes, step, &y[0], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w, &of.layout[0], r1-r0, pairs)
		}
		c, n = c+2*pairs, n-2*pairs
		if n == 0 {
			return
		}
	}
	x, y, all := d.operands(c, part, sample, n)
	if m.mul == 2 {
		depth3GradOther(of.set, &all[0], lanes, step, &y[r0*m.ow], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w,
			&of.at[0], &of.masks[0], of.vectors, r1-r0, n)
	} else {
		depth3GradEach(of.set, &all[0], lanes, step, &y[r0*m.ow], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w,
			m.dir, &of.at[0], &of.masks[0], of.vectors, r1-r0, n)
	}
}

// operands are the planes of x and of y of n channels of a sample, from channel c on, and their sums.
func (d *convDepthwiseWGrad) operands(c, part, sample, n int) (x, y, sums []float32) {
	px, py, plane := d.im.h*d.im.w, d.im.oh*d.im.ow, sample*d.groups+c
	return d.src[plane*px:][:n*px], d.dy[plane*py:][:n*py],
		d.sums[(c*d.partials+part)*d.partialSums():][:((n-1)*d.partials+1)*d.partialSums()]
}

// convDepthwiseWGradWrite adds up the partial sums and lanes of some channels.
type convDepthwiseWGradWrite convDepthwiseWGrad

// channelsPerWrite is the channels of a chunk of convDepthwiseWGradWrite.
func (d *convDepthwiseWGrad) channelsPerWrite() int {
	return work.CeilDiv(work.Grain, d.partials*d.partialSums())
}

func (d *convDepthwiseWGradWrite) Chunk(i int) {
	w := (*convDepthwiseWGrad)(d)
	lo, hi := work.Interval(i, w.channelsPerWrite(), d.groups)
	kk, lanes := d.kk(), isaSizes[d.isa].lanes
	used := min(lanes, d.im.ow) // the others are zeros
	for c := lo; c < hi; c++ {
		dw := d.dw[c*kk:][:kk]
		clear(dw)
		for part := range d.partials {
			sums := d.sums[(c*d.partials+part)*w.partialSums():]
			t := 0
			for ; t+3 <= kk; t += 3 { // an addition waits for the one before it: three sums at a time
				a, b, c := dw[t], dw[t+1], dw[t+2]
				second, third := sums[(t+1)*lanes:][:used], sums[(t+2)*lanes:][:used]
				for l, v := range sums[t*lanes:][:used] {
					a += v
					b += second[l]
					c += third[l]
				}
				dw[t], dw[t+1], dw[t+2] = a, b, c
			}
			for ; t < kk; t++ {
				for _, v := range sums[t*lanes:][:used] {
					dw[t] += v
				}
			}
		}
	}
}
