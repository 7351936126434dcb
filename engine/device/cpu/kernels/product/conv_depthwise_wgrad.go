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
	perChunk          int       // partial sums
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
	all := d.groups * d.partials
	d.perChunk = max(1, min(minChunkWork/(d.samplesPerPartial*s.py()*d.kk()), all/work.EnoughChunks))
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
	work.Do(p, work.CeilDiv(d.groups*d.partials, d.perChunk), d)
	work.Do(p, work.CeilDiv(d.groups, d.channelsPerWrite()), (*convDepthwiseWGradWrite)(d))
}

// Chunk computes some partial sums.
func (d *convDepthwiseWGrad) Chunk(i int) {
	lo, hi := work.Interval(i, d.perChunk, d.groups*d.partials)
	for part := lo; part < hi; part++ {
		c := part / d.partials
		first := part % d.partials * d.samplesPerPartial
		sums := d.sums[part*d.partialSums():][:d.partialSums()]
		clear(sums)
		if d.columns != nil {
			d.sumInPlace(sums, c, first, min(first+d.samplesPerPartial, d.samples))
		} else {
			d.sumCopies(sums, c, first, min(first+d.samplesPerPartial, d.samples))
		}
	}
}

// sumCopies adds the sums of a channel for some samples, whose planes it copies.
func (d *convDepthwiseWGrad) sumCopies(all []float32, c, first, end int) {
	ws := takeWorkspace()
	oh, ow, sums := d.im.oh, d.im.ow, ws.rows[:len(all)]
	for s := first; s < end; s++ {
		plane := s*d.groups + c
		for r := 0; r < oh; r += d.bandRows {
			rows := min(d.bandRows, oh-r)
			d.copyBand(ws.b[:bandInput], plane, r, r+rows)
			clear(sums)
			dy := d.dy[plane*oh*ow+r*ow:][:rows*ow]
			depthGrad(d.isa, &sums[0], &dy[0], ow, &ws.b[0], d.line(), &d.taps[0], d.kk(), rows, ow)
			d.vec.Add(all, all, sums)
		}
	}
	ws.giveBack()
}

// sumInPlace is sumCopies where windows are 3x3.
func (d *convDepthwiseWGrad) sumInPlace(all []float32, c, first, end int) {
	if d.bands == 1 {
		d.sumColumns(all, first*d.groups+c, end-first, 0, d.im.oh)
		return
	}
	for s := first; s < end; s++ {
		for band := range d.bands {
			r0, r1 := d.rows(band)
			d.sumColumns(all, s*d.groups+c, 1, r0, r1)
		}
	}
}

// sumColumns adds the sums of rows r0 to r1 of a channel's planes of n samples.
func (d *convDepthwiseWGrad) sumColumns(all []float32, plane, n, r0, r1 int) {
	m, lanes := &d.im, isaSizes[d.isa].lanes
	px, py := m.h*m.w, m.oh*m.ow
	x, y := d.src[plane*px:][:((n-1)*d.groups+1)*px], d.dy[plane*py:][:((n-1)*d.groups+1)*py]
	first := r0*m.mul + m.off
	for i := range d.columns {
		of := &d.columns[i]
		switch {
		case of.vectors == 0:
		case m.mul == 2:
			depth3GradOther(d.isa, &all[i*columnLanes], lanes, &y[r0*m.ow], m.ow, d.groups*py, &x[0], m.w, d.groups*px, m.h, first, first*m.w,
				&of.at[0], &of.masks[0], of.vectors, r1-r0, n)
		default:
			depth3GradEach(d.isa, &all[i*columnLanes], lanes, &y[r0*m.ow], m.ow, d.groups*py, &x[0], m.w, d.groups*px, m.h, first, first*m.w,
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
