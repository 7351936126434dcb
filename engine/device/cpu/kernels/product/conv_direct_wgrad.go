package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convDirectWGrad is dw without windows in memory, by the inner kernel of a direct
// convolution. That kernel multiplies pixels with vectors of channels out, tap by tap;
// here the elements of a window stand for the pixels, and pixels for the taps:
//
//  1. A band of x is copied with its padding, channels innermost, so that the elements
//     of a row of a window are neighbours.
//  2. dy is transposed, so that vectors hold channels out.
//  3. Their products are added to sums [panel][element of the window][channel out].
//
// Some samples have such sums of their own, in scratch memory. These partial sums are
// added in order, and the weights written from them.
//
// Where there are many channels, the partial sums of all weights would go through memory once for each sample. Then
// all samples are copied first, and a chunk computes some of the sums for all of them ([convDirectWGradCells]).
//
// Factors of bfloat16 are rounded in their copies. A word then has two neighbouring pixels of a channel.
type convDirectWGrad struct {
	*convShape
	paired            bool // pixels are
	vec               *vec.Funcs
	panelChannels     int // channels out of a panel
	panels            int // of a group
	rowsMixed         int // rows of the window that are interleaved in the copy: 1, or all
	pitch             int // columns of the copy
	bandRows          int // rows of output in a band
	partials          int // partial sums of a group
	samplesPerPartial int
	taps              []int // offset in the copy of each pixel of a band
	cuts              int   // cells that a row of the window of a panel is cut into; 0: chunks are of samples
	x, dy, dw         []float32
	sums              []float32
}

// maxBandPixels is the most pixels that are summed before their sum is added to
// another.
const maxBandPixels = 512

// newConvDirectWGrad returns nil where the way would not pay, or a band would not fit.
func newConvDirectWGrad(s *convShape) *convDirectWGrad {
	if s.isPart() { // some channels out, with the bands and partial sums of all
		d := newConvDirectWGrad(s.of)
		if d != nil {
			d.convShape, d.panels = s, work.CeilDiv(s.og(), d.panelChannels)
			d.share()
		}
		return d
	}
	cg, og := s.cg(), s.og()
	d := &convDirectWGrad{convShape: s, vec: s.on.ISA.Vec(), panelChannels: channelsPerPanel(s.on.ISA, og), rowsMixed: 1}
	if most := maxDirectPixels[s.on.ISA]; d.panelChannels == 0 || s.n == 0 || s.ow > maxBandPixels || s.apart > 1 {
		return nil
	} else if cg == 1 && 2*og < d.panelChannels && s.stride == 1 && s.ow == s.w {
		return nil // windows that are the plane, moved, are made sooner than multiplied with empty lanes
	} else if s.kw*cg < most {
		d.rowsMixed = s.kh
	}
	d.paired = s.pairs() && s.ow%2 == 0
	d.panels = work.CeilDiv(og, d.panelChannels)
	d.pitch = (s.ow-1)*s.stride + s.kw
	for d.bandRows = max(1, min(s.oh, maxBandPixels/s.ow)); !d.fits(cg); d.bandRows-- {
		if d.bandRows == 1 {
			return nil
		}
	}
	d.samplesPerPartial = work.CeilDiv(s.n, min(s.n, work.CeilDiv(work.EnoughChunks, s.groups)))
	d.partials = work.CeilDiv(s.n, d.samplesPerPartial)
	d.locate()
	d.share()
	return d
}

// maxCellSums is the most sums of a row of the window, which a chunk keeps in its workspace: 1 MiB.
const maxCellSums = 1 << 18

// share decides what a chunk is, which reaches no bit. Cells save more the more weights there are, and they must not take
// more scratch memory.
func (d *convDirectWGrad) share() {
	d.cuts = 0
	most := work.CeilDiv(d.kw*d.cg(), maxDirectPixels[d.on.ISA])
	cuts := work.CeilDiv(work.EnoughChunks, max(1, d.groups*d.panels*d.kh))
	if d.rowsMixed == 1 && cuts <= most && d.rowElems()*d.panelChannels <= maxCellSums && d.groups*d.panels*d.panelSums()+d.copies() <= d.scratch() {
		d.cuts = cuts
	}
}

// copyElems is the elements of the copy of a band, with room for what transposeX writes on, and for the pixels with which
// the last ones are paired. copies is those of all.
func (d *convDirectWGrad) copyElems() int {
	return (d.lines(d.bandRows)*d.pitch + max(depthStep, d.stride)) * d.rowsMixed * d.cg()
}
func (d *convDirectWGrad) copies() int { return d.n * d.groups * d.bands() * d.copyElems() }

// bands is the bands of a sample.
func (d *convDirectWGrad) bands() int { return work.CeilDiv(d.oh, d.bandRows) }

// rounds implements [rounder].
func (d *convDirectWGrad) rounds() bool { return d.paired }

// locate finds each pixel, or pair of pixels, of a band in the copy.
func (d *convDirectWGrad) locate() {
	step := 1
	if d.paired {
		step = 2
	}
	for r := range d.bandRows {
		for w := 0; w < d.ow; w += step {
			line := r * d.stride
			if d.rowsMixed > 1 {
				line = r
			}
			d.taps = append(d.taps, (line*d.pitch+w*d.stride)*d.rowsMixed*d.cg())
		}
	}
}

// lines is the lines of the copy of a band: a row of x each, or, where the rows of a
// window are interleaved, all rows of a row of windows.
func (d *convDirectWGrad) lines(rows int) int {
	if d.rowsMixed > 1 {
		return rows
	}
	return (rows-1)*d.stride + d.kh
}

func (d *convDirectWGrad) fits(cg int) bool {
	lanes := isaSizes[d.on.ISA].lanes
	return (d.lines(d.bandRows)+1)*(d.pitch+lanes)*d.rowsMixed*cg <= bandInput && d.pitch <= blockK
}

// panelSums is the sums of a panel.
func (d *convDirectWGrad) panelSums() int { return d.cg() * d.kk() * d.panelChannels }

// allSums is the elements of all sums, once.
func (d *convDirectWGrad) allSums() int { return d.groups * d.panels * d.panelSums() }

func (d *convDirectWGrad) scratch() int {
	if d.cuts > 0 {
		return d.allSums() + d.copies()
	}
	return d.partials * d.allSums()
}

func (d *convDirectWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	d.x, d.dy, d.dw, d.sums = x, dy, dw, scratch
	if d.cuts > 0 {
		work.Do(p, d.n*d.groups*d.bands(), (*convDirectWGradCopy)(d))
		work.Do(p, d.groups*d.panels*d.kh*d.cuts, (*convDirectWGradCells)(d))
	} else {
		work.Do(p, d.partials*d.groups, d)
		if d.partials > 1 {
			work.Do(p, work.CeilDiv(d.allSums(), work.Grain), (*convDirectWGradAdd)(d))
		}
	}
	work.Do(p, d.groups*d.panels*work.CeilDiv(d.cg(), writtenChannels), (*convDirectWGradWrite)(d))
}

// convDirectWGradAdd adds up the partial sums.
type convDirectWGradAdd convDirectWGrad

func (d *convDirectWGradAdd) Chunk(i int) {
	addPartials(d.vec, d.sums, d.partials, (*convDirectWGrad)(d).allSums(), i)
}

// addPartials adds up interval i of partial sums, of n elements each.
func addPartials(v *vec.Funcs, sums []float32, partials, n, i int) {
	lo, hi := work.Interval(i, work.Grain, n)
	sum := sums[lo:hi]
	for part := 1; part < partials; part++ {
		v.Add(sum, sum, sums[part*n+lo:part*n+hi])
	}
}

// writtenChannels is the channels in whose weights are written together: the sums that they are read from, lane by lane, stay in
// the first cache.
const writtenChannels = 16

// convDirectWGradWrite writes the weights of a panel, some channels in at a time.
type convDirectWGradWrite convDirectWGrad

func (d *convDirectWGradWrite) Chunk(i int) {
	kk, cg, og, channels := d.kh*d.kw, d.convShape.cg(), d.convShape.og(), d.panelChannels
	blocks := work.CeilDiv(cg, writtenChannels)
	panel, elems := i/blocks, (*convDirectWGrad)(d).panelSums()
	c0, c1 := work.Interval(i%blocks, writtenChannels, cg)
	sums := d.sums[panel*elems:][:elems]
	first := panel % d.panels * channels // channel out of the group
	for lane := range min(channels, og-first) {
		w := d.dw[(panel/d.panels*og+first+lane)*cg*kk:][:cg*kk]
		for c := c0; c < c1; c++ {
			for kh := range d.kh {
				for kw := range d.kw {
					e := kh*d.kw + kw
					if d.rowsMixed > 1 {
						e = kw*d.kh + kh
					}
					w[c*kk+kh*d.kw+kw] = sums[(e*cg+c)*channels+lane]
				}
			}
		}
	}
}

// convDirectWGradCopy copies the bands of all samples, for cells.
type convDirectWGradCopy convDirectWGrad

func (d *convDirectWGradCopy) Chunk(i int) {
	k := (*convDirectWGrad)(d)
	r := i % k.bands() * d.bandRows
	k.copyRounded(k.copyOf(i), i/k.bands(), r, min(d.bandRows, d.oh-r))
}

// copyOf is the copy of band i of those of all samples and groups.
func (d *convDirectWGrad) copyOf(i int) []float32 {
	return d.sums[d.allSums()+i*d.copyElems():][:d.copyElems()]
}

// convDirectWGradCells computes sums for all samples: a chunk is some elements of a row of the window of a panel. Partial sums
// are made and added up as those of whole samples are.
type convDirectWGradCells convDirectWGrad

func (d *convDirectWGradCells) Chunk(i int) {
	ws, k := takeWorkspace(), (*convDirectWGrad)(d)
	cut, row := i%d.cuts, i/d.cuts%d.kh
	panel := i / d.cuts / d.kh
	elems := k.rowElems()
	pieces := work.CeilDiv(elems, maxDirectPixels[d.on.ISA])
	c := cell{row: row, first: pieces * cut / d.cuts, end: pieces * (cut + 1) / d.cuts}
	e0, e1 := elems*c.first/pieces*d.panelChannels, elems*c.end/pieces*d.panelChannels
	sums := d.sums[panel*k.panelSums()+row*elems*d.panelChannels:][:elems*d.panelChannels]
	part := sums
	for s := range d.n {
		add := 1
		if s%d.samplesPerPartial == 0 {
			add = 0
			if s > 0 && k.bands() == 1 && d.samplesPerPartial == 1 {
				add = 1 // the partial sum is one band's, which the inner kernel adds
			} else if s > 0 {
				part = ws.arena(len(sums))[:len(sums)]
			}
		}
		for band := range k.bands() {
			r, at := band*d.bandRows, s*d.groups+panel/d.panels
			rows := min(d.bandRows, d.oh-r)
			k.transposeRounded(ws.b, at, panel%d.panels, r, rows)
			k.multiplyCell(part, k.copyOf(at*k.bands()+band), ws.b, rows, add, c)
			add = 1
		}
		if last := s+1 == d.n || (s+1)%d.samplesPerPartial == 0; last && &part[0] != &sums[0] {
			d.vec.Add(sums[e0:e1], sums[e0:e1], part[e0:e1])
		}
	}
	ws.giveBack()
}

// Chunk computes a group's sums over the samples of one partial sum.
func (d *convDirectWGrad) Chunk(i int) {
	ws := takeWorkspace()
	part, group, add := i/d.groups, i%d.groups, 0
	for s := part * d.samplesPerPartial; s < min(d.n, (part+1)*d.samplesPerPartial); s++ {
		for r := 0; r < d.oh; r += d.bandRows {
			rows := min(d.bandRows, d.oh-r)
			d.copyRounded(ws.b[:bandInput], s*d.groups+group, r, rows)
			for panel := range d.panels {
				d.transposeRounded(ws.b[bandInput:], s*d.groups+group, panel, r, rows)
				d.multiply(ws, d.sums[(i*d.panels+panel)*d.panelSums():][:d.panelSums()], rows, add)
			}
			add = 1
		}
	}
	ws.giveBack()
}

// copyRounded is copyBand, rounded and in pairs where those are.
func (d *convDirectWGrad) copyRounded(dst []float32, product, r0, rows int) {
	d.copyBand(dst, product, r0, rows)
	if step := d.rowsMixed * d.cg(); d.paired {
		pairApart(&dst[0], d.stride*step, d.lines(rows)*d.pitch*step)
	}
}

// transposeRounded is transposeDY, rounded and in pairs where those are.
func (d *convDirectWGrad) transposeRounded(dst []float32, product, panel, r0, rows int) {
	d.transposeDY(dst, product, panel, r0, rows)
	if d.paired {
		pairRows(dst, d.panelChannels, rows*d.ow/2)
	}
}

// copyBand copies the input of some output rows as [line][column][row of the window,
// where they are interleaved][channel]. What is outside the image becomes zeros.
func (d *convDirectWGrad) copyBand(all []float32, product, r0, rows int) {
	cg, off := d.cg(), -d.pad
	src := d.x[product*cg*d.px():][:cg*d.px()]
	first, step := max(0, -off), d.rowsMixed*cg // first column of the copy that is inside
	n := max(0, min(d.pitch-first, d.w-max(0, off)))
	for line := range d.lines(rows) {
		for row := range d.rowsMixed {
			h := r0*d.stride + off + line
			if d.rowsMixed > 1 {
				h = (r0+line)*d.stride + off + row
			}
			dst := all[line*d.pitch*step+row*cg:]
			if h < 0 || h >= d.h || n == 0 {
				zeroPixels(dst, d.pitch, step, cg)
				continue
			}
			zeroPixels(dst, first, step, cg)
			d.transposeX(dst[first*step:], src[h*d.w+max(0, off):], n)
			zeroPixels(dst[(first+n)*step:], d.pitch-first-n, step, cg)
		}
	}
}

// zeroPixels clears some channels of n pixels.
func zeroPixels(dst []float32, n, step, channels int) {
	for i := range n {
		clear(dst[i*step:][:channels])
	}
}

// transposeX writes n pixels of a row of all channels, channels innermost. It may
// write on to a whole vector of pixels: they belong to the end of the line and to the
// next one, and both are written later.
func (d *convDirectWGrad) transposeX(dst, src []float32, n int) {
	cg, lanes := d.cg(), isaSizes[d.on.ISA].lanes
	step, c := d.rowsMixed*cg, 0
	for ; c+lanes <= cg; c += lanes {
		transpose(d.on.ISA, &dst[c], step, &src[c*d.px()], d.px(), n)
	}
	for ; c < cg; c++ {
		at := c
		for _, v := range src[c*d.px():][:n] {
			dst[at] = v
			at += step
		}
	}
}

// transposeDY writes some rows of dy as [pixel][channel of a panel]. Lanes that no
// channel has are not used: they may get any numbers that follow in memory.
func (d *convDirectWGrad) transposeDY(dst []float32, product, panel, r0, rows int) {
	og, lanes, channels, py := d.og(), isaSizes[d.on.ISA].lanes, d.panelChannels, d.py()
	o, n := panel*channels, rows*d.ow
	src := d.dy[(product*og+o)*py+r0*d.ow:]
	for v := 0; v < channels; v += lanes {
		if o+v < og && (v+lanes-1)*py+n <= len(src) {
			transpose(d.on.ISA, &dst[v], channels, &src[v*py], py, n)
			continue
		}
		for l := v; l < v+lanes; l++ {
			for i := range n {
				dst[i*channels+l] = 0
				if o+l < og {
					dst[i*channels+l] = src[l*py+i]
				}
			}
		}
	}
}

// multiply adds a band's products to the sums of a panel, or with add 0 makes them the sums.
func (d *convDirectWGrad) multiply(ws *workspace, sums []float32, rows, add int) {
	elems := d.rowElems()
	for row := range d.kh / d.rowsMixed {
		c := cell{row: row, end: work.CeilDiv(elems, maxDirectPixels[d.on.ISA])}
		d.multiplyCell(sums[row*elems*d.panelChannels:], ws.b[:bandInput], ws.b[bandInput:], rows, add, c)
	}
}

// rowElems is the elements of a row of the window, or of all rows where these are interleaved.
func (d *convDirectWGrad) rowElems() int { return d.kw * d.rowsMixed * d.cg() }

// cell is some pieces of a row of the window: each is elements whose sums stay in registers.
type cell struct{ row, first, end int }

// multiplyCell is multiply for some of the sums of a row. x and dy are the copies of a band.
func (d *convDirectWGrad) multiplyCell(sums, x, dy []float32, rows, add int, c cell) {
	channels, elems, n, multiply := d.panelChannels, d.rowElems(), rows*d.ow, convVectors
	if d.paired {
		multiply, n = convPairs, n/2
	}
	pieces := work.CeilDiv(elems, maxDirectPixels[d.on.ISA])
	x = x[c.row*d.pitch*d.cg():]
	for i := c.first; i < c.end; i++ {
		e, end := elems*i/pieces, elems*(i+1)/pieces
		multiply(d.on.ISA, channels, &sums[e*channels], &x[e], &d.taps[0], &dy[0], end-e, n, add)
	}
}
