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
	perChunk          int       // channels
	columns           []columns // of each eight lanes of sums, where images are read in place
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
	}
	return d
}

// cutColumns puts each column into its lane of the sums.
func (d *convDepthwiseWGrad) cutColumns() {
	d.columns = make([]columns, isaSizes[d.isa].lanes/columnLanes)
	ow := d.im.ow
	for c := 0; c < ow; c += columnLanes {
		n := min(columnLanes, ow-c)
		of := &d.columns[c/columnLanes%len(d.columns)]
		of.addWindows(&d.im, c, n)
		of.addMask(func(l int) bool { return l < n }) // of y
	}
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
	m, lanes := &d.im, isaSizes[d.isa].lanes
	px, py, plane, step := m.h*m.w, m.oh*m.ow, sample*d.groups+c, d.partials*d.partialSums()
	x, y := d.src[plane*px:][:n*px], d.dy[plane*py:][:n*py]
	all := d.sums[(c*d.partials+part)*d.partialSums():][:(n-1)*step+d.partialSums()]
	first := r0*m.mul + m.off
	for i := range d.columns {
		of := &d.columns[i]
		switch {
		case of.vectors == 0:
		case m.mul == 2:
			depth3GradOther(d.isa, &all[i*columnLanes], lanes, step, &y[r0*m.ow], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w,
				&of.at[0], &of.masks[0], of.vectors, r1-r0, n)
		default:
			depth3GradEach(d.isa, &all[i*columnLanes], lanes, step, &y[r0*m.ow], m.ow, py, &x[0], m.w, px, m.h, first, first*m.w,
				m.dir, &of.at[0], &of.masks[0], of.vectors, r1-r0, n)
		}
	}
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
	for c := lo; c < hi; c++ {
		dw := d.dw[c*kk:][:kk]
		clear(dw)
		for part := range d.partials {
			sums := d.sums[(c*d.partials+part)*w.partialSums():]
			for t, sum := range dw {
				for _, v := range sums[t*lanes:][:lanes] {
					sum += v
				}
				dw[t] = sum
			}
		}
	}
}
