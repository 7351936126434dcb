package kernels

import (
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
)

// tileConvW is the gradient of a convolution's weights with AMX, in float32 as sums
// of three parts of bfloat16. Rows of a tile are channels in at a tap, columns are
// channels out, and a step of k is 32 pixels. x is split as it lies, with its padding,
// so that a tap is only moved; dy is split with zeros for what lies between rows
// there.
//
// A chunk is a range of the weights in a part of the samples. Some rows of an image,
// or some images, are split together; tiles sum few steps of them, and are then added
// to the part's sums in scratch memory: [channel out, in 32s][channel in, in 16s][tap]
// of 16x32 each. Parts are added in order.
//
// Numbers without parts count as zero, and the weights that they reach are computed
// again with vectors, each in one sum of its own.
type convAMXWGrad struct {
	paddedBands
	vec                         *vec.Funcs
	ins, outs                   int // ranges of channels
	partials, samplesPerPartial int // of the samples
	samplesTogether             int // that are split together
	samplePixels                int // pixels from one of them to the next
	rowPixels                   int // pixels that are split of one
	planeWords                  int // places from one plane of split x to the next
	tileOffsets                 []int
	steps                       []int // pixels of a sample; then those of the others
	x, dy, dw                   []float32
	sums                        []float32
	unsplittable                []bool // chunks that met numbers without parts
	reachedX                    []bool // channels in, by tap, whose numbers without parts reach weights
	reachedY                    []bool // channels out that have such numbers
	stage                       func(d *convAMXWGrad, i int)
}

const (
	amxRange  = 128 // most channels in, and out, of a chunk
	amxPixels = 512 // most pixels that are split together, and of more than one image half of it
	amxSteps  = 3   // steps of a block of k: what they take of x and dy fits the first cache
	unitWords = 16 * 32
)

// newTileConvW returns nil where it would not pay or not fit.
func newConvAMXWGrad(k *conv) *convAMXWGrad {
	cg, og := k.perGroup()
	if m := &k.im; k.isa != AMX || m.mul > 1 || k.kk > amxTaps || m.ow > amxPixels || cg == 0 || og == 0 || k.n*k.py < amxMinPixels {
		return nil
	}
	d := &convAMXWGrad{vec: k.isa.vec(), ins: ceilDiv(cg, amxRange), outs: ceilDiv(og, amxRange)}
	d.paddedBands = paddedBands{isa: k.isa, im: k.im, count: k.n * k.groups, cg: cg, og: og, groups: k.groups}
	if !d.cut(func(rows, _ int) bool { return (rows-1)*d.pitch+k.im.ow <= amxPixels }) {
		return nil
	}
	d.locate()
	d.layOut()
	if d.rowPixels > maxRows*blockK || !d.pays() {
		return nil
	}
	parts := min(k.n, ceilDiv(enoughChunks, d.groups*d.ins*d.outs))
	d.samplesPerPartial = ceilDiv(k.n, parts)
	d.partials = ceilDiv(k.n, d.samplesPerPartial)
	d.unsplittable = make([]bool, d.chunks())
	d.reachedX, d.reachedY = make([]bool, k.c*k.kk), make([]bool, k.o)
	return d
}

// pays reports whether tiles take less time than vectors: a multiply-add, among them
// those of what is empty in tiles, takes 2/5 of the time, and to split a number takes
// that of 25 by vectors.
func (d *convAMXWGrad) pays() bool {
	kk, pixels := d.kk(), len(d.steps)/d.samplesTogether*tileSteps
	tiles := ceilDiv(d.cg, 16) * 16 * ceilDiv(d.og, 32) * 32 * kk
	return (2*tiles+5*25*(d.cg*d.outs+d.og*d.ins))*pixels <= 5*d.cg*d.og*kk*d.bandRows*d.im.ow
}

// layOut decides where in a plane the pixels of samples are, and lists where the
// tiles begin.
func (d *convAMXWGrad) layOut() {
	taps := d.taps[:d.kk()]
	steps := ceilDiv((d.bandRows-1)*d.pitch+d.im.ow, tileSteps)
	d.samplesTogether = 1
	if d.bands == 1 {
		d.samplesTogether = max(1, amxPixels/2/(steps*tileSteps))
	}
	d.samplePixels = ceilDiv(max(d.plane(), steps*tileSteps), tileSteps) * tileSteps
	d.rowPixels = ceilDiv(max(d.samplePixels, steps*tileSteps+slices.Max(taps)), tileSteps) * tileSteps
	d.planeWords = (ceilDiv((d.samplesTogether-1)*d.samplePixels+d.rowPixels, 2*line) | 1) * line
	for s := range d.samplesTogether {
		for i := range steps {
			d.steps = append(d.steps, s*d.samplePixels+i*tileSteps)
		}
	}
	for i := range 2 * d.pairs(min(d.cg, amxRange)) {
		d.tileOffsets = append(d.tileOffsets, i/len(taps)*16*2*d.planeWords+taps[i%len(taps)])
	}
}

// kk is the taps, and pairs how many pairs of 16 channels at a tap there are.
func (d *convAMXWGrad) kk() int           { return d.im.kh * d.im.kw }
func (d *convAMXWGrad) pairs(cin int) int { return ceilDiv(ceilDiv(cin, 16)*d.kk(), 2) }

// chunks are the ranges of weights in all parts.
func (d *convAMXWGrad) chunks() int { return d.partials * d.groups * d.ins * d.outs }

// panel is how many sums 32 channels out have in a range, and elems all of it.
func (d *convAMXWGrad) panel() int { return 2 * d.pairs(min(d.cg, amxRange)) * unitWords }
func (d *convAMXWGrad) elems() int { return ceilDiv(min(d.og, amxRange), 32) * d.panel() }

// scratch has room for what write reads beyond.
func (d *convAMXWGrad) scratch() int { return d.chunks()*d.elems() + maxLanes*unitWords }

func (d *convAMXWGrad) run(p Pool, x, dy, dw, scratch []float32) {
	d.src, d.x, d.dy, d.dw, d.sums = x, x, dy, dw, scratch
	run := func(n int, stage func(d *convAMXWGrad, i int)) {
		d.stage = stage
		do(p, n, d)
	}
	clear(d.unsplittable)
	run(d.chunks(), (*convAMXWGrad).sumRange)
	if d.partials > 1 {
		run(ceilDiv(d.partialElems(), grain), (*convAMXWGrad).addPartials)
	}
	run(d.groups*ceilDiv(d.og, 32)*ceilDiv(d.cg, 16), (*convAMXWGrad).write)
	if slices.Contains(d.unsplittable, true) {
		run(d.groups*(d.cg+d.og), (*convAMXWGrad).findUnsplittable)
		run(d.groups*d.og, (*convAMXWGrad).recompute)
	}
}

func (d *convAMXWGrad) Chunk(i int) { d.stage(d, i) }

// sum computes the sums of a range in a part of the samples.
func (d *convAMXWGrad) sumRange(i int) {
	ws := takeWorkspace()
	sums := d.sums[i*d.elems():][:d.elems()]
	clear(sums)
	odd := &d.unsplittable[i]
	o0, o1 := interval(i%d.outs, amxRange, d.og)
	i /= d.outs
	c0, c1 := interval(i%d.ins, amxRange, d.cg)
	i /= d.ins
	group := i % d.groups
	s0, s1 := interval(i/d.groups, d.samplesPerPartial, d.count/d.groups)
	part := ceilDiv(min(d.cg, amxRange), 16) * 16 * d.planeWords
	mem := ws.arena(3*part + len(d.steps)*stepWords)
	x, panel := mem[:3*part], mem[3*part:]
	at := d.tileOffsets[:2*d.pairs(c1-c0)]
	for s := s0; s < s1; s += d.samplesTogether {
		for band := range d.bands {
			r0, r1 := d.rows(band)
			n := min(d.samplesTogether, s1-s)
			for j := range n {
				*odd = d.splitX(ws, x[j*d.samplePixels/2:], part, (s+j)*d.groups+group, c0, c1, r0, r1) || *odd
			}
			steps := ceilDiv((r1-r0-1)*d.pitch+d.im.ow, tileSteps)
			for o := o0; o < o1; o += 32 {
				for j := range n {
					to := panel[j*steps*stepWords:][:steps*stepWords]
					*odd = d.splitY(ws, to, (s+j)*d.groups+group, o, min(o+32, o1), r0, r1) || *odd
				}
				ws.config.set(32, 32)
				for k := 0; k < n*steps; k += amxSteps {
					d.isa.pixels(&ws.config, &sums[(o-o0)/32*d.panel()], &x[0], d.planeWords, part, at, d.steps[k:min(k+amxSteps, n*steps)], &panel[k*stepWords], &ws.rows[0])
				}
			}
		}
	}
	ws.giveBack()
}

// splitX splits some rows of channels of an image, with their padding. It reports
// whether there are numbers without parts.
func (d *convAMXWGrad) splitX(ws *workspace, dst []float32, part, product, c0, c1, r0, r1 int) (odd bool) {
	row := ws.a[:d.rowPixels]
	clear(row[(r1-r0-1+d.im.kh)*d.pitch:])
	for c := c0; c < c1; c++ {
		d.copyChannel(row, product, c, r0, r1)
		odd = d.split(dst[(c-c0)*d.planeWords:], part, line, row) || odd
	}
	return odd
}

// splitY splits some rows of at most 32 channels of dy, as a panel.
func (d *convAMXWGrad) splitY(ws *workspace, dst []float32, product, o0, o1, r0, r1 int) (odd bool) {
	n, ow := len(dst)/stepWords*tileSteps, d.im.ow
	rows := r1 - r0
	row := ws.a[:max(n, rows*d.pitch)]
	clear(row[rows*d.pitch:])
	for o := o0; o < o1; o++ {
		d.isa.padRows(row, d.pitch, d.dy[((product*d.og+o)*d.im.oh+r0)*ow:], ow, ow, rows, 0)
		odd = d.split(dst[(o-o0)*line:], 2*tileWords, stepWords, row[:n]) || odd
	}
	d.isa.turnTiles(&dst[0], len(dst)/tileWords)
	return odd
}

// split splits pixels, 32 of them in a row; those without parts become zeros.
func (d *convAMXWGrad) split(dst []float32, part, step int, src []float32) (odd bool) {
	if odd = d.isa.splitPixels(dst, part, step, src); odd {
		zeroUnsplittable(src)
		d.isa.splitPixels(dst, part, step, src)
	}
	return odd
}

// ofPart is the sums of a part.
func (d *convAMXWGrad) partialElems() int { return d.chunks() / d.partials * d.elems() }

// addParts adds up a piece of all parts.
func (d *convAMXWGrad) addPartials(i int) {
	addPartials(d.vec, d.sums, d.partials, d.partialElems(), i)
}

// write writes the weights of 16 channels in of 32 channels out.
func (d *convAMXWGrad) write(i int) {
	ws, kk := takeWorkspace(), d.kk()
	in := i % ceilDiv(d.cg, 16) * 16
	i /= ceilDiv(d.cg, 16)
	out, group := i%ceilDiv(d.og, 32)*32, i/ceilDiv(d.og, 32)
	at := ((group*d.ins+in/amxRange)*d.outs + out/amxRange) * d.elems()
	sums := d.sums[at+out%amxRange/32*d.panel()+in%amxRange/16*kk*unitWords:]
	n, row := min(16, d.cg-in), 16*kk+maxLanes
	if kk == 1 {
		d.isa.transpose(&ws.b[0], row, &sums[0], 32, 32)
	} else {
		for c := range n { // what a transposing copy writes beyond its taps, the next one overwrites
			for t := 0; t < kk; t += maxLanes {
				d.isa.transpose(&ws.b[c*kk+t], row, &sums[t*unitWords+c*32], unitWords, 32)
			}
		}
	}
	for o := range min(32, d.og-out) {
		copy(d.dw[((group*d.og+out+o)*d.cg+in)*kk:][:n*kk], ws.b[o*row:])
	}
	ws.giveBack()
}

// search looks for numbers without parts in a channel of x or of dy.
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

// again computes those weights of a channel out anew that such numbers reach.
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
				d.isa.depthGrad(&sums[0], dy, ow, &ws.b[0], d.pitch, &d.taps[0], kk, r1-r0, ow)
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
