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
type tileConvW struct {
	banded
	vec        *vec.Funcs
	ins, outs  int // ranges of channels
	parts, per int // of the samples
	samples    int // that are split together
	stride     int // pixels from one of them to the next
	length     int // pixels that are split of one
	apart      int // places from one plane of split x to the next
	at         []int
	steps      []int // pixels of a sample; then those of the others
	x, dy, dw  []float32
	sums       []float32
	odd        []bool // chunks that met numbers without parts
	reachX     []bool // channels in, by tap, whose numbers without parts reach weights
	reachY     []bool // channels out that have such numbers
	stage      func(d *tileConvW, i int)
}

const (
	tileRange  = 128 // most channels in, and out, of a chunk
	tilePixels = 512 // most pixels that are split together, and of more than one image half of it
	tileBlock  = 3   // steps of a block of k: what they take of x and dy fits the first cache
	unitPlaces = 16 * 32
)

// newTileConvW returns nil where it would not pay or not fit.
func newTileConvW(k *conv) *tileConvW {
	cg, og := k.perGroup()
	if m := &k.im; k.level != AMX || m.mul > 1 || k.kk > tileTaps || m.ow > tilePixels || cg == 0 || og == 0 || k.n*k.py < leastPixels {
		return nil
	}
	d := &tileConvW{vec: k.level.vec(), ins: chunks(cg, tileRange), outs: chunks(og, tileRange)}
	d.banded = banded{level: k.level, im: k.im, count: k.n * k.groups, cg: cg, og: og, groups: k.groups}
	if !d.cut(func(rows, _ int) bool { return (rows-1)*d.pitch+k.im.ow <= tilePixels }) {
		return nil
	}
	d.locate()
	d.layOut()
	if d.length > maxRows*blockK || !d.pays() {
		return nil
	}
	parts := min(k.n, chunks(enoughChunks, d.groups*d.ins*d.outs))
	d.per = chunks(k.n, parts)
	d.parts = chunks(k.n, d.per)
	d.odd = make([]bool, d.chunks())
	d.reachX, d.reachY = make([]bool, k.c*k.kk), make([]bool, k.o)
	return d
}

// pays reports whether tiles take less time than vectors: a multiply-add, among them
// those of what is empty in tiles, takes 2/5 of the time, and to split a number takes
// that of 25 by vectors.
func (d *tileConvW) pays() bool {
	kk, pixels := d.kk(), len(d.steps)/d.samples*tileSteps
	tiles := chunks(d.cg, 16) * 16 * chunks(d.og, 32) * 32 * kk
	return (2*tiles+5*25*(d.cg*d.outs+d.og*d.ins))*pixels <= 5*d.cg*d.og*kk*d.bandRows*d.im.ow
}

// layOut decides where in a plane the pixels of samples are, and lists where the
// tiles begin.
func (d *tileConvW) layOut() {
	taps := d.taps[:d.kk()]
	steps := chunks((d.bandRows-1)*d.pitch+d.im.ow, tileSteps)
	d.samples = 1
	if d.bands == 1 {
		d.samples = max(1, tilePixels/2/(steps*tileSteps))
	}
	d.stride = chunks(max(d.plane(), steps*tileSteps), tileSteps) * tileSteps
	d.length = chunks(max(d.stride, steps*tileSteps+slices.Max(taps)), tileSteps) * tileSteps
	d.apart = (chunks((d.samples-1)*d.stride+d.length, 2*line) | 1) * line
	for s := range d.samples {
		for i := range steps {
			d.steps = append(d.steps, s*d.stride+i*tileSteps)
		}
	}
	for i := range 2 * d.pairs(min(d.cg, tileRange)) {
		d.at = append(d.at, i/len(taps)*16*2*d.apart+taps[i%len(taps)])
	}
}

// kk is the taps, and pairs how many pairs of 16 channels at a tap there are.
func (d *tileConvW) kk() int           { return d.im.kh * d.im.kw }
func (d *tileConvW) pairs(cin int) int { return chunks(chunks(cin, 16)*d.kk(), 2) }

// chunks are the ranges of weights in all parts.
func (d *tileConvW) chunks() int { return d.parts * d.groups * d.ins * d.outs }

// panel is how many sums 32 channels out have in a range, and elems all of it.
func (d *tileConvW) panel() int { return 2 * d.pairs(min(d.cg, tileRange)) * unitPlaces }
func (d *tileConvW) elems() int { return chunks(min(d.og, tileRange), 32) * d.panel() }

// scratch has room for what write reads beyond.
func (d *tileConvW) scratch() int { return d.chunks()*d.elems() + maxLanes*unitPlaces }

func (d *tileConvW) run(p Pool, x, dy, dw, scratch []float32) {
	d.src, d.x, d.dy, d.dw, d.sums = x, x, dy, dw, scratch
	run := func(n int, stage func(d *tileConvW, i int)) {
		d.stage = stage
		do(p, n, d)
	}
	clear(d.odd)
	run(d.chunks(), (*tileConvW).sum)
	if d.parts > 1 {
		run(chunks(d.ofPart(), grain), (*tileConvW).addParts)
	}
	run(d.groups*chunks(d.og, 32)*chunks(d.cg, 16), (*tileConvW).write)
	if slices.Contains(d.odd, true) {
		run(d.groups*(d.cg+d.og), (*tileConvW).search)
		run(d.groups*d.og, (*tileConvW).again)
	}
}

func (d *tileConvW) Chunk(i int) { d.stage(d, i) }

// sum computes the sums of a range in a part of the samples.
func (d *tileConvW) sum(i int) {
	ws := takeWorkspace()
	sums := d.sums[i*d.elems():][:d.elems()]
	clear(sums)
	odd := &d.odd[i]
	o0, o1 := span(i%d.outs, tileRange, d.og)
	i /= d.outs
	c0, c1 := span(i%d.ins, tileRange, d.cg)
	i /= d.ins
	group := i % d.groups
	s0, s1 := span(i/d.groups, d.per, d.count/d.groups)
	part := chunks(min(d.cg, tileRange), 16) * 16 * d.apart
	mem := ws.more(3*part + len(d.steps)*stepPlaces)
	x, panel := mem[:3*part], mem[3*part:]
	at := d.at[:2*d.pairs(c1-c0)]
	for s := s0; s < s1; s += d.samples {
		for band := range d.bands {
			r0, r1 := d.rows(band)
			n := min(d.samples, s1-s)
			for j := range n {
				*odd = d.splitX(ws, x[j*d.stride/2:], part, (s+j)*d.groups+group, c0, c1, r0, r1) || *odd
			}
			steps := chunks((r1-r0-1)*d.pitch+d.im.ow, tileSteps)
			for o := o0; o < o1; o += 32 {
				for j := range n {
					to := panel[j*steps*stepPlaces:][:steps*stepPlaces]
					*odd = d.splitY(ws, to, (s+j)*d.groups+group, o, min(o+32, o1), r0, r1) || *odd
				}
				ws.shapes.set(32, 32)
				for k := 0; k < n*steps; k += tileBlock {
					d.level.pixels(&ws.shapes, &sums[(o-o0)/32*d.panel()], &x[0], d.apart, part, at, d.steps[k:min(k+tileBlock, n*steps)], &panel[k*stepPlaces], &ws.rows[0])
				}
			}
		}
	}
	ws.giveBack()
}

// splitX splits some rows of channels of an image, with their padding. It reports
// whether there are numbers without parts.
func (d *tileConvW) splitX(ws *workspace, dst []float32, part, product, c0, c1, r0, r1 int) (odd bool) {
	row := ws.a[:d.length]
	clear(row[(r1-r0-1+d.im.kh)*d.pitch:])
	for c := c0; c < c1; c++ {
		d.copyChannel(row, product, c, r0, r1)
		odd = d.split(dst[(c-c0)*d.apart:], part, line, row) || odd
	}
	return odd
}

// splitY splits some rows of at most 32 channels of dy, as a panel.
func (d *tileConvW) splitY(ws *workspace, dst []float32, product, o0, o1, r0, r1 int) (odd bool) {
	n, ow := len(dst)/stepPlaces*tileSteps, d.im.ow
	rows := r1 - r0
	row := ws.a[:max(n, rows*d.pitch)]
	clear(row[rows*d.pitch:])
	for o := o0; o < o1; o++ {
		d.level.padRows(row, d.pitch, d.dy[((product*d.og+o)*d.im.oh+r0)*ow:], ow, ow, rows, 0)
		odd = d.split(dst[(o-o0)*line:], 2*tilePlaces, stepPlaces, row[:n]) || odd
	}
	d.level.turnTiles(&dst[0], len(dst)/tilePlaces)
	return odd
}

// split splits pixels, 32 of them in a row; those without parts become zeros.
func (d *tileConvW) split(dst []float32, part, step int, src []float32) (odd bool) {
	if odd = d.level.splitPixels(dst, part, step, src); odd {
		dropOdd(src)
		d.level.splitPixels(dst, part, step, src)
	}
	return odd
}

// ofPart is the sums of a part.
func (d *tileConvW) ofPart() int { return d.chunks() / d.parts * d.elems() }

// addParts adds up a piece of all parts.
func (d *tileConvW) addParts(i int) { addParts(d.vec, d.sums, d.parts, d.ofPart(), i) }

// write writes the weights of 16 channels in of 32 channels out.
func (d *tileConvW) write(i int) {
	ws, kk := takeWorkspace(), d.kk()
	in := i % chunks(d.cg, 16) * 16
	i /= chunks(d.cg, 16)
	out, group := i%chunks(d.og, 32)*32, i/chunks(d.og, 32)
	at := ((group*d.ins+in/tileRange)*d.outs + out/tileRange) * d.elems()
	sums := d.sums[at+out%tileRange/32*d.panel()+in%tileRange/16*kk*unitPlaces:]
	n, row := min(16, d.cg-in), 16*kk+maxLanes
	if kk == 1 {
		d.level.transpose(&ws.b[0], row, &sums[0], 32, 32)
	} else {
		for c := range n { // what a transposing copy writes beyond its taps, the next one overwrites
			for t := 0; t < kk; t += maxLanes {
				d.level.transpose(&ws.b[c*kk+t], row, &sums[t*unitPlaces+c*32], unitPlaces, 32)
			}
		}
	}
	for o := range min(32, d.og-out) {
		copy(d.dw[((group*d.og+out+o)*d.cg+in)*kk:][:n*kk], ws.b[o*row:])
	}
	ws.giveBack()
}

// search looks for numbers without parts in a channel of x or of dy.
func (d *tileConvW) search(i int) {
	m := &d.im
	n := d.count / d.groups
	if c := i - d.groups*d.og; c >= 0 {
		reach := d.reachX[c*d.kk():][:d.kk()]
		clear(reach)
		for s := range n {
			for p, v := range d.x[(s*d.groups*d.cg+c)*m.h*m.w:][:m.h*m.w] {
				for t := 0; isOdd(v) && t < len(reach); t++ {
					h, w := p/m.w-t/m.kw-m.off, p%m.w-t%m.kw-m.off
					reach[t] = reach[t] || h >= 0 && h < m.oh && w >= 0 && w < m.ow
				}
			}
		}
		return
	}
	d.reachY[i] = false
	for s := range n {
		d.reachY[i] = d.reachY[i] || slices.ContainsFunc(d.dy[(s*d.groups*d.og+i)*m.oh*m.ow:][:m.oh*m.ow], isOdd)
	}
}

// again computes those weights of a channel out anew that such numbers reach.
func (d *tileConvW) again(i int) {
	ws, kk, lanes := takeWorkspace(), d.kk(), levelSizes[d.level].lanes
	group, ow := i/d.og, d.im.ow
	for c := range d.cg {
		reach := d.reachX[(group*d.cg+c)*kk:][:kk]
		if !d.reachY[i] && !slices.Contains(reach, true) {
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
				d.level.depthGrad(&sums[0], dy, ow, &ws.b[0], d.pitch, &d.taps[0], kk, r1-r0, ow)
			}
		}
		for t := range kk {
			if d.reachY[i] || reach[t] {
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
