package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convDepthwise is a convolution in which each channel has weights of its own, or dx
// of one with stride 1. A plane is copied with its padding ([paddedBands]), and the
// pixels of a row are multiplied with one weight after the other, in the order of
// (kh, kw).
type convDepthwise struct {
	paddedBands
	w, dst        []float32
	then          *work.Epilogue
	bandsPerChunk int
}

// isDepthwise reports whether channels stand alone.
func (s *convShape) isDepthwise() bool { return s.of.cg() == 1 && s.of.og() == 1 && s.n > 0 }

// newConvDepthwise returns nil where channels do not stand alone, or a band would not
// fit.
func newConvDepthwise(s *convShape, of planes) *convDepthwise {
	if !s.isDepthwise() {
		return nil
	}
	d := &convDepthwise{paddedBands: paddedBands{planes: of}}
	if s.kk() > blockK || !d.cut(d.inWorkspace(1)) {
		return nil
	}
	d.locate(d.cg, d.plane())
	d.bandsPerChunk = d.shareBands(s.kk())
	return d
}

// shareBands is the bands of a chunk, where a channel has so many weights.
func (d *paddedBands) shareBands(weights int) int {
	return max(1, min(minChunkWork/(d.bandRows*d.im.ow*weights), d.count*d.bands/work.EnoughChunks))
}

func (d *convDepthwise) scratch() int { return 0 }

func (d *convDepthwise) run(p work.Pool, src, w, dst, _ []float32, then *work.Epilogue) {
	d.src, d.w, d.dst, d.then = src, w, dst, then
	work.Do(p, work.CeilDiv(d.count*d.bands, d.bandsPerChunk), d)
}

func (d *convDepthwise) Chunk(i int) {
	ws := takeWorkspace()
	kk, pixels, ow := d.kk(), d.im.oh*d.im.ow, d.im.ow
	for at, end := work.Interval(i, d.bandsPerChunk, d.count*d.bands); at < end; at++ {
		plane := at / d.bands
		r0, r1 := d.rows(at % d.bands)
		d.copyBand(ws.b[:bandInput], plane, r0, r1)
		w := d.w[plane%d.groups*kk:][:kk]
		y := d.dst[plane*pixels:][:pixels][r0*ow : r1*ow]
		depth(d.isa, &y[0], ow, &ws.b[0], d.line(), &d.taps[0], &w[0], kk, r1-r0, ow)
		if d.then != nil {
			(*d.then).After(plane, plane+1, r0*ow, r1*ow)
		}
	}
	ws.giveBack()
}

// convDepthwiseStride is dx of a depthwise convolution with a stride s. dx has s*s
// phases, each one of every s-th pixel in both directions, and a phase is a convolution
// of dy with every s-th weight.
type convDepthwiseStride struct {
	paddedBands   // of one phase
	stride        int
	h, w          int // pixels of dx
	weights       int // of a channel
	bandsPerChunk int
	phases        []phase
	allW, dx      []float32
	then          *work.Epilogue
}

// phase is the weights of a phase: where the pixel that each is multiplied with lies in
// the copy, and which weight of its channel it is.
type phase struct{ taps, weights []int }

// newConvDepthwiseStride returns nil where channels do not stand alone, windows are
// dilated, or a band would not fit.
func newConvDepthwiseStride(s *convShape) *convDepthwiseStride {
	if !s.isDepthwise() || s.apart > 1 {
		return nil
	}
	d := &convDepthwiseStride{
		paddedBands: paddedBands{planes: s.backward()}, stride: s.stride, h: s.h, w: s.w, weights: s.kk(),
	}
	d.im = phaseOf(d.im, s.stride)
	if s.kk() > blockK || !d.cut(d.inWorkspace(s.stride)) {
		return nil
	}
	d.locatePhases(s)
	d.bandsPerChunk = d.shareBands(s.kk())
	return d
}

// phaseOf is how a phase reads dy: pixel i of any phase reads it from i+off to i+last.
func phaseOf(m im2col, s int) im2col {
	pad := m.off
	off, last := -max(0, (max(m.kh, m.kw)-1-pad)/s), (s-1+pad)/s
	m.kh, m.kw = last-off+1, last-off+1
	m.oh, m.ow = work.CeilDiv(m.oh, s), work.CeilDiv(m.ow, s)
	m.off, m.dir = off, 1
	return m
}

// locatePhases finds the pixels of each phase in the copy.
func (d *convDepthwiseStride) locatePhases(s *convShape) {
	stride, pad := s.stride, s.pad
	for i := range stride * stride {
		var p phase
		for kh := (i/stride + pad) % stride; kh < s.kh; kh += stride {
			for kw := (i%stride + pad) % stride; kw < s.kw; kw += stride {
				h, w := (i/stride+pad-kh)/stride-d.im.off, (i%stride+pad-kw)/stride-d.im.off
				p.taps = append(p.taps, h*d.pitch+w)
				p.weights = append(p.weights, kh*s.kw+kw)
			}
		}
		d.phases = append(d.phases, p)
	}
}

func (d *convDepthwiseStride) scratch() int { return 0 }

func (d *convDepthwiseStride) run(p work.Pool, dy, w, dx, _ []float32, then *work.Epilogue) {
	d.src, d.allW, d.dx, d.then = dy, w, dx, then
	work.Do(p, work.CeilDiv(d.count*d.bands, d.bandsPerChunk), d)
}

func (d *convDepthwiseStride) Chunk(i int) {
	ws := takeWorkspace()
	for at, end := work.Interval(i, d.bandsPerChunk, d.count*d.bands); at < end; at++ {
		plane := at / d.bands
		r0, r1 := d.rows(at % d.bands)
		d.copyBand(ws.b[:bandInput], plane, r0, r1)
		w := d.allW[plane%d.groups*d.weights:][:d.weights]
		h0, h1 := r0*d.stride, min(r1*d.stride, d.h)
		d.compute(ws, d.dx[plane*d.h*d.w:][:d.h*d.w][h0*d.w:h1*d.w], w, r1-r0)
		if d.then != nil {
			(*d.then).After(plane, plane+1, h0*d.w, h1*d.w)
		}
	}
	ws.giveBack()
}

// compute computes the phases of some rows, and interleaves their pixels.
func (d *convDepthwiseStride) compute(ws *workspace, dx, w []float32, rows int) {
	s, sums := d.stride, ws.b[bandInput:]
	for i := range d.phases {
		p, b := &d.phases[i], i%s
		pixels := sums[b*rows*d.im.ow:][:rows*d.im.ow]
		if len(p.taps) == 0 {
			clear(pixels)
		} else {
			for t, at := range p.weights {
				ws.rows[t] = w[at]
			}
			depth(d.isa, &pixels[0], d.im.ow, &ws.b[0], d.pitch, &p.taps[0], &ws.rows[0], len(p.taps), rows, d.im.ow)
		}
		if b == s-1 {
			interleave(d.isa, dx, sums, i/s, s, d.w, rows)
		}
	}
}

// interleave writes every s-th row of y from first on, whose rows have w pixels, from
// its s phases of so many rows.
func interleave(i isa.ISA, y, phases []float32, first, s, w, rows int) {
	wide := work.CeilDiv(w, s)
	for r := 0; r < rows && (r*s+first)*w < len(y); r++ {
		row := y[(r*s+first)*w:][:w]
		if s == 2 {
			zip(i, row, phases[r*wide:], phases[(rows+r)*wide:])
			continue
		}
		for b := range min(s, w) {
			at := b
			for _, v := range phases[(b*rows+r)*wide:][:work.CeilDiv(w-b, s)] {
				row[at] = v
				at += s
			}
		}
	}
}
