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
	return d
}

// partialSums is the sums of a channel for the samples of one partial sum.
func (d *convDepthwiseWGrad) partialSums() int { return d.kk() * isaSizes[d.isa].lanes }

func (d *convDepthwiseWGrad) scratch() int { return d.groups * d.partials * d.partialSums() }

func (d *convDepthwiseWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	d.src, d.dy, d.dw, d.sums = x, dy, dw, scratch
	work.Do(p, d.groups*d.partials, d)
	work.Do(p, work.CeilDiv(d.groups, d.channelsPerWrite()), (*convDepthwiseWGradWrite)(d))
}

// Chunk computes the sums of a channel for the samples of one partial sum.
func (d *convDepthwiseWGrad) Chunk(i int) {
	ws := takeWorkspace()
	c, first, oh, ow := i/d.partials, i%d.partials*d.samplesPerPartial, d.im.oh, d.im.ow
	all, sums := d.sums[i*d.partialSums():][:d.partialSums()], ws.rows[:d.partialSums()]
	clear(all)
	for s := first; s < min(first+d.samplesPerPartial, d.samples); s++ {
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
			for t := range dw {
				for _, v := range sums[t*lanes:][:lanes] {
					dw[t] += v
				}
			}
		}
	}
}
