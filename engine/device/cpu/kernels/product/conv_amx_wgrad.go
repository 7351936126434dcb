package product

import (
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convAMXWGrad is dw with AMX, on float32 split into three terms of bfloat16. In the
// product of tiles, a row is a channel in at a tap, a column is a channel out, and a step
// of k is 32 pixels.
//
//  1. Some rows of a sample, or some samples, are split together: x as it lies, with its
//     padding, so that a tap is the same plane, moved; and dy with zeros for the
//     padding between rows.
//  2. Tiles sum a few steps of them, and are added to sums in scratch memory: [32 channels
//     out][16 channels in][tap] of 16x32 each. A chunk has a range of the weights, and the
//     samples of one partial sum.
//  3. The partial sums are added in order, and the weights written from them.
//
// Unsplittable values enter as zero, and the weights that they reach are recomputed with
// vector code, as one sum each.
type convAMXWGrad struct {
	paddedBands
	vec               *vec.Funcs
	ins, outs         int // ranges of channels in, and out
	partials          int // of a range of weights
	samplesPerPartial int
	samplesTogether   int   // samples that are split together
	samplePixels      int   // pixels from one of these to the next
	rowPixels         int   // pixels of one that are split
	planeWords        int   // words from one plane of split x to the next
	tileOffsets       []int // where each 16 channels in at a tap begin, in bfloat16 numbers
	steps             []int // first pixels of the steps of a sample; then those of the others
	x, dy, dw         []float32
	sums              []float32
	unsplittable      []bool // chunks that met unsplittable values
	reachedX          []bool // by channel in and tap: an unsplittable value of x reaches the weight
	reachedY          []bool // by channel out: dy has unsplittable values
}

const (
	amxRange  = 128 // most channels in, and out, of a chunk
	amxPixels = 512 // most pixels that are split together, and of more than one sample half of it
	amxSteps  = 3   // steps of a block of k: their x and dy fit the first cache
	unitWords = 16 * 32
)

// newConvAMXWGrad returns nil where the way would not pay, or a band would not fit.
func newConvAMXWGrad(s *convShape) *convAMXWGrad {
	if s.isPart() { // some channels out, with the bands and partial sums of all
		d := newConvAMXWGrad(s.of)
		if d != nil {
			d.planes, d.outs = s.forward(), work.CeilDiv(s.og(), amxRange)
			d.unsplittable, d.reachedY = make([]bool, d.chunks()), make([]bool, s.o)
		}
		return d
	}
	cg, og := s.cg(), s.og()
	if s.on.ISA != isa.AMX || s.stride > 1 || s.apart > 1 || s.kk() > amxTaps || s.ow > amxPixels || cg == 0 || og == 0 || s.n*s.py() < amxMinPixels {
		return nil
	}
	d := &convAMXWGrad{
		paddedBands: paddedBands{planes: s.forward()}, vec: s.on.ISA.Vec(), ins: work.CeilDiv(cg, amxRange), outs: work.CeilDiv(og, amxRange),
	}
	if !d.cut(func(rows, _ int) bool { return (rows-1)*d.pitch+s.ow <= amxPixels }) {
		return nil
	}
	d.locate(d.cg, d.plane())
	d.layOut()
	if d.rowPixels > maxRows*blockK || !d.pays() {
		return nil
	}
	d.samplesPerPartial = work.CeilDiv(s.n, min(s.n, work.CeilDiv(work.EnoughChunks, d.groups*d.ins*d.outs)))
	d.partials = work.CeilDiv(s.n, d.samplesPerPartial)
	d.unsplittable = make([]bool, d.chunks())
	d.reachedX, d.reachedY = make([]bool, s.c*s.kk()), make([]bool, s.o)
	return d
}

// pays reports whether tiles take less time than vectors. A multiply-add, also one of an
// empty place in a tile, takes 2/5 of the time; to split a number takes the time of 25 by
// vectors.
func (d *convAMXWGrad) pays() bool {
	kk, pixels := d.kk(), len(d.steps)/d.samplesTogether*tileSteps
	tiles := work.CeilDiv(d.cg, 16) * 16 * work.CeilDiv(d.og, 32) * 32 * kk
	return (2*tiles+5*25*(d.cg*d.outs+d.og*d.ins))*pixels <= 5*d.cg*d.og*kk*d.bandRows*d.im.ow
}

// layOut decides where in a plane the pixels of each sample are, and lists where tiles
// and steps begin.
func (d *convAMXWGrad) layOut() {
	taps := d.taps[:d.kk()]
	steps := work.CeilDiv((d.bandRows-1)*d.pitch+d.im.ow, tileSteps)
	d.samplesTogether = 1
	if d.bands == 1 {
		d.samplesTogether = max(1, amxPixels/2/(steps*tileSteps))
	}
	d.samplePixels = work.CeilDiv(max(d.plane(), steps*tileSteps), tileSteps) * tileSteps
	d.rowPixels = work.CeilDiv(max(d.samplePixels, steps*tileSteps+slices.Max(taps)), tileSteps) * tileSteps
	d.planeWords = (work.CeilDiv((d.samplesTogether-1)*d.samplePixels+d.rowPixels, 2*line) | 1) * line
	for s := range d.samplesTogether {
		for i := range steps {
			d.steps = append(d.steps, s*d.samplePixels+i*tileSteps)
		}
	}
	for i := range 2 * d.pairs(min(d.cg, amxRange)) {
		d.tileOffsets = append(d.tileOffsets, i/len(taps)*16*2*d.planeWords+taps[i%len(taps)])
	}
}

// pairs is the pairs of tiles, of 16 channels in at a tap each, of cin channels in.
func (d *convAMXWGrad) pairs(cin int) int { return work.CeilDiv(work.CeilDiv(cin, 16)*d.kk(), 2) }

// chunks is the ranges of weights, for all partial sums.
func (d *convAMXWGrad) chunks() int { return d.partials * d.groups * d.ins * d.outs }

// panel is the sums of 32 channels out in a range, and elems those of the range.
func (d *convAMXWGrad) panel() int { return 2 * d.pairs(min(d.cg, amxRange)) * unitWords }
func (d *convAMXWGrad) elems() int { return work.CeilDiv(min(d.og, amxRange), 32) * d.panel() }

// scratch has room for the sums that write reads beyond the last ones.
func (d *convAMXWGrad) scratch() int { return d.chunks()*d.elems() + maxLanes*unitWords }

func (d *convAMXWGrad) run(p work.Pool, x, dy, dw, scratch []float32, _ *work.Epilogue) {
	d.src, d.x, d.dy, d.dw, d.sums = x, x, dy, dw, scratch
	clear(d.unsplittable)
	work.Do(p, d.chunks(), d)
	if d.partials > 1 {
		work.Do(p, work.CeilDiv(d.partialElems(), work.Grain), (*convAMXWGradAdd)(d))
	}
	work.Do(p, d.groups*work.CeilDiv(d.og, 32)*work.CeilDiv(d.cg, 16), (*convAMXWGradWrite)(d))
	if slices.Contains(d.unsplittable, true) {
		work.Do(p, d.groups*(d.cg+d.og), (*convAMXWGradSearch)(d))
		work.Do(p, d.groups*d.og, (*convAMXWGradRecompute)(d))
	}
}

// The loops that follow the sums.
type (
	convAMXWGradAdd       convAMXWGrad // adds up the partial sums
	convAMXWGradWrite     convAMXWGrad // writes the weights
	convAMXWGradSearch    convAMXWGrad // finds unsplittable values
	convAMXWGradRecompute convAMXWGrad // recomputes the weights that they reach
)

func (d *convAMXWGradAdd) Chunk(i int) {
	w := (*convAMXWGrad)(d)
	addPartials(d.vec, d.sums, d.partials, w.partialElems(), i)
}
func (d *convAMXWGradWrite) Chunk(i int)     { (*convAMXWGrad)(d).write(i) }
func (d *convAMXWGradSearch) Chunk(i int)    { (*convAMXWGrad)(d).findUnsplittable(i) }
func (d *convAMXWGradRecompute) Chunk(i int) { (*convAMXWGrad)(d).recompute(i) }

// Chunk computes the sums of a range of weights over the samples of a partial sum.
func (d *convAMXWGrad) Chunk(i int) {
	ws := takeWorkspace()
	sums := d.sums[i*d.elems():][:d.elems()]
	clear(sums)
	unsplittable := &d.unsplittable[i]
	o0, o1 := work.Interval(i%d.outs, amxRange, d.og)
	i /= d.outs
	c0, c1 := work.Interval(i%d.ins, amxRange, d.cg)
	i /= d.ins
	group := i % d.groups
	s0, s1 := work.Interval(i/d.groups, d.samplesPerPartial, d.count/d.groups)
	term := work.CeilDiv(min(d.cg, amxRange), 16) * 16 * d.planeWords
	mem := ws.arena(3*term + len(d.steps)*stepWords)
	x, panel := mem[:3*term], mem[3*term:]
	at := d.tileOffsets[:2*d.pairs(c1-c0)]
	for s := s0; s < s1; s += d.samplesTogether {
		for band := range d.bands {
			r0, r1 := d.rows(band)
			n := min(d.samplesTogether, s1-s)
			for j := range n {
				*unsplittable = d.splitX(ws, x[j*d.samplePixels/2:], term, (s+j)*d.groups+group, c0, c1, r0, r1) || *unsplittable
			}
			steps := work.CeilDiv((r1-r0-1)*d.pitch+d.im.ow, tileSteps)
			for o := o0; o < o1; o += 32 {
				for j := range n {
					to := panel[j*steps*stepWords:][:steps*stepWords]
					*unsplittable = d.splitY(ws, to, (s+j)*d.groups+group, o, min(o+32, o1), r0, r1) || *unsplittable
				}
				ws.config.set(32, 32)
				for k := 0; k < n*steps; k += amxSteps {
					multiplyPixels(&ws.config, &sums[(o-o0)/32*d.panel()], &x[0], d.planeWords, term, at, d.steps[k:min(k+amxSteps, n*steps)], &panel[k*stepWords], &ws.rows[0])
				}
			}
		}
	}
	ws.giveBack()
}

// splitX splits some rows of channels of an image, with their padding. It reports
// whether it met unsplittable values.
func (d *convAMXWGrad) splitX(ws *workspace, dst []float32, term, product, c0, c1, r0, r1 int) (unsplittable bool) {
	row := ws.a[:d.rowPixels]
	clear(row[(r1-r0-1+d.im.kh)*d.pitch:])
	for c := c0; c < c1; c++ {
		d.copyChannel(row, product, c, r0, r1)
		unsplittable = d.split(dst[(c-c0)*d.planeWords:], term, line, row) || unsplittable
	}
	return unsplittable
}

// splitY splits some rows of at most 32 channels of dy, as a panel. It reports whether
// it met unsplittable values.
func (d *convAMXWGrad) splitY(ws *workspace, dst []float32, product, o0, o1, r0, r1 int) (unsplittable bool) {
	n, ow := len(dst)/stepWords*tileSteps, d.im.ow
	rows := r1 - r0
	row := ws.a[:max(n, rows*d.pitch)]
	clear(row[rows*d.pitch:])
	for o := o0; o < o1; o++ {
		padRows(d.isa, row, d.pitch, d.dy[((product*d.og+o)*d.im.oh+r0)*ow:], ow, ow, rows, 0)
		unsplittable = d.split(dst[(o-o0)*line:], 2*tileWords, stepWords, row[:n]) || unsplittable
	}
	turnTiles(&dst[0], len(dst)/tileWords)
	return unsplittable
}

// split splits rows of 32 pixels, whose terms are so many words apart, and rows step
// words. It reports whether it met unsplittable values, which become zeros.
func (d *convAMXWGrad) split(dst []float32, term, step int, src []float32) (unsplittable bool) {
	if unsplittable = splitRowsOfPixels(dst, term, step, src); unsplittable {
		zeroUnsplittable(src)
		splitRowsOfPixels(dst, term, step, src)
	}
	return unsplittable
}

// partialElems is the elements of a partial sum of all weights.
func (d *convAMXWGrad) partialElems() int { return d.chunks() / d.partials * d.elems() }

// write writes the weights of 16 channels in of 32 channels out.
func (d *convAMXWGrad) write(i int) {
	ws, kk := takeWorkspace(), d.kk()
	in := i % work.CeilDiv(d.cg, 16) * 16
	i /= work.CeilDiv(d.cg, 16)
	out, group := i%work.CeilDiv(d.og, 32)*32, i/work.CeilDiv(d.og, 32)
	at := ((group*d.ins+in/amxRange)*d.outs + out/amxRange) * d.elems()
	sums := d.sums[at+out%amxRange/32*d.panel()+in%amxRange/16*kk*unitWords:]
	n, row := min(16, d.cg-in), 16*kk+maxLanes
	if kk == 1 {
		transpose(d.isa, &ws.b[0], row, &sums[0], 32, 32)
	} else {
		for c := range n { // the next copy overwrites the elements that this one writes beyond its taps
			for t := 0; t < kk; t += maxLanes {
				transpose(d.isa, &ws.b[c*kk+t], row, &sums[t*unitWords+c*32], unitWords, 32)
			}
		}
	}
	for o := range min(32, d.og-out) {
		copy(d.dw[((group*d.og+out+o)*d.cg+in)*kk:][:n*kk], ws.b[o*row:])
	}
	ws.giveBack()
}

// findUnsplittable looks for unsplittable values in a channel of dy, or of x, where it
// finds the weights that they reach.
func (d *convAMXWGrad) findUnsplittable(i int) {
	m := &d.im
	n := d.count / d.groups
	if c := i - d.groups*d.og; c >= 0 {
		reach := d.reachedX[c*d.kk():][:d.kk()]
		clear(reach)
		for s := range n {
			for p, v := range d.x[(s*d.groups*d.cg+c)*m.h*m.w:][:m.h*m.w] {
				for t := 0; isUnsplittable(v) && t < len(reach); t++ {
					h, w := p/m.w-t/m.kw-m.off, p%m.w-t%m.kw-m.off
					reach[t] = reach[t] || h >= 0 && h < m.oh && w >= 0 && w < m.ow
				}
			}
		}
		return
	}
	d.reachedY[i] = false
	for s := range n {
		d.reachedY[i] = d.reachedY[i] || slices.ContainsFunc(d.dy[(s*d.groups*d.og+i)*m.oh*m.ow:][:m.oh*m.ow], isUnsplittable)
	}
}

// recompute computes the weights of a channel out that unsplittable values reach.
func (d *convAMXWGrad) recompute(i int) {
	ws, kk, lanes := takeWorkspace(), d.kk(), isaSizes[d.isa].lanes
	group, ow := i/d.og, d.im.ow
	for c := range d.cg {
		reach := d.reachedX[(group*d.cg+c)*kk:][:kk]
		if !d.reachedY[i] && !slices.Contains(reach, true) {
			continue
		}
		sums := ws.rows[:kk*lanes]
		clear(sums)
		for s := range d.count / d.groups {
			for band := range d.bands {
				r0, r1 := d.rows(band)
				product := s*d.groups + group
				d.copyChannel(ws.b, product, c, r0, r1)
				dy := &d.dy[((product*d.og+i%d.og)*d.im.oh+r0)*ow]
				depthGrad(d.isa, &sums[0], dy, ow, &ws.b[0], d.pitch, &d.taps[0], kk, r1-r0, ow)
			}
		}
		for t := range kk {
			if d.reachedY[i] || reach[t] {
				x := float32(0)
				for _, v := range sums[t*lanes:][:lanes] {
					x += v
				}
				d.dw[(i*d.cg+c)*kk+t] = x
			}
		}
	}
	ws.giveBack()
}
