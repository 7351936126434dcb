package kernels

import "slices"

// tileConv is a convolution with AMX, in float32 as sums of three parts of bfloat16
// ([splitSizes]). Rows of a tile are channels out, columns are pixels, and a step
// of k is a tap of 32 channels in. The input of a band is split once, as planes of
// pairs of channels, in which a tap is only moved; the weights are split once a
// run.
//
// Pixels that lie between the rows of the copy are computed like others, and not
// written, where that takes fewer tiles than to begin at every row.
//
// Numbers without parts count as zero. What they are in the window of, or weights
// of, is computed again with vectors: each element in one sum of its own, so that its
// bits do not depend on its neighbours.
type tileConv struct {
	banded
	panels, steps int // of 32 channels out, and of k
	together      int // blocks of 32 channels in that are split together
	samples       int // of a chunk
	panelsOf      int // likewise
	offsets       []int
	pixels        [2][]int // of a whole band and of the last one
	w, y, packed  []float32
	wo, wc        int    // strides of w: from output to output channel, and from input to input
	odd           []bool // rows of packed weights with numbers without parts, by unit
	packing       bool
	then          *Epilogue
}

const (
	tileChannels = 2 * 16    // channels in of a step, and out of a panel
	tileImage    = 160 << 10 // places of split input at a time
	tileBlocks   = 4         // most blocks of channels that are split together
	tileWeights  = 256 << 10 // most places of packed weights that stay in the second cache
	leastPanels  = 4         // of a chunk, for which its input may be split once more
	tileTaps     = 64        // most taps of a window
	leastRows    = 8         // least channels out for which tiles pay
	leastPixels  = 512       // least pixels of all samples that pay for splitting weights
	mostSamples  = 64        // of a chunk
)

// stepPlaces is what a step of a panel of weights takes.
const stepPlaces = 3 * 2 * tilePlaces

// newTileConv returns nil where it would not pay or not fit. wo and wc are as for
// [newPlaneConv].
func newTileConv(l Level, im im2col, count, groups, cg, og, wo, wc int) *tileConv {
	kk := im.kh * im.kw
	switch {
	case l != AMX || cg == 0 || kk > tileTaps || cg*kk > maxRows*blockK/2 || im.ow > maxLanes*blockK:
		return nil
	case 4*cg < 3*chunks(cg, tileChannels)*tileChannels || og < leastRows || count/groups*im.oh*im.ow < leastPixels || kk == 1 && im.mul > 1:
		return nil // for steps and tiles would be empty, or there is little to multiply
	}
	d := &tileConv{banded: banded{level: l, im: im, count: count, groups: groups, cg: cg, og: og}, wo: wo, wc: wc}
	d.panels, d.steps = chunks(og, tileChannels), d.blocks()*kk
	d.together = min(d.blocks(), tileBlocks)
	if !d.cut(d.fits) {
		return nil
	}
	d.locate()
	for block := range d.together {
		for _, at := range d.taps[:kk] {
			d.offsets = append(d.offsets, block*tileSteps/2*d.apart()+at)
		}
	}
	d.pixels[0] = d.locatePixels(d.bandRows)
	d.pixels[1] = d.locatePixels(im.oh - (d.bands-1)*d.bandRows)
	if tiles := len(d.pixels[0]) / 4; 10*d.bandRows*im.ow < 6*16*tiles {
		return nil
	}
	d.share()
	d.odd = make([]bool, d.units()*tileChannels)
	return d
}

// share decides what a chunk is: a band of some samples, and some panels of weights.
// Weights that do not stay in the cache are read for as many samples as can be.
func (d *tileConv) share() {
	n := d.count / d.groups
	d.samples, d.panelsOf = 1, d.panels
	large := d.panels*d.steps*stepPlaces > tileWeights
	if d.bands == 1 {
		most := d.count / enoughChunks
		if large {
			most = n
		}
		d.samples = chunks(n, chunks(n, max(1, min(mostSamples, tileImage/d.image(), most))))
	}
	if few := chunks(n, d.samples) * d.groups * d.bands; large && few < enoughChunks {
		d.panelsOf = min(d.panels, max(leastPanels, chunks(d.panels, chunks(enoughChunks, few))))
	}
}

// fits is a [bandFits].
func (d *tileConv) fits(_, plane int) bool {
	return d.image() <= tileImage && 2*plane+2*line <= maxRows*blockK && d.cg*plane+line <= maxCols*blockK
}

// apart is the places from one plane to the next: an odd number of cache lines, so
// that the rows of a tile are in different sets of the cache.
func (d *tileConv) apart() int { return (chunks(d.plane(), line) | 1) * line }

// image is the places of the split input of a band, with what tiles read beyond.
func (d *tileConv) image() int { return 3*d.part() + 2*line }

// part is the places of a part of it.
func (d *tileConv) part() int { return d.together * tileSteps / 2 * d.apart() }

// locatePixels cuts rows of output into 16 pixels each. Of them it lists where
// they are in the copy, where in y the first that counts is, a mask of those that
// count, and as many low bits. Their number is even.
func (d *tileConv) locatePixels(rows int) (at []int) {
	ow, line := d.im.ow, d.line()
	add := func(from, to, mask, n int) {
		if n > 0 {
			at = append(at, from, to, mask, 1<<n-1)
		}
	}
	if run := (rows-1)*line + ow; chunks(run, 16) <= rows*chunks(ow, 16) {
		for from := 0; from < run; from += 16 {
			to, mask, n := 0, 0, 0
			for i := range min(16, run-from) {
				if r, p := (from+i)/line, (from+i)%line; p < ow {
					if n == 0 {
						to = r*ow + p
					}
					mask, n = mask|1<<i, n+1
				}
			}
			add(from, to, mask, n)
		}
	} else {
		for i := range rows * chunks(ow, 16) {
			r, p := i/chunks(ow, 16), i%chunks(ow, 16)*16
			n := min(16, ow-p)
			add(r*line+p, r*ow+p, 1<<n-1, n)
		}
	}
	if len(at)%8 != 0 {
		at = append(at, at[len(at)-4], 0, 0, 0)
	}
	return at
}

// units are the pieces in which weights are packed: all taps of 32 channels in and
// out.
func (d *tileConv) units() int { return d.groups * d.panels * d.blocks() }

// blocks are 32 channels in each.
func (d *tileConv) blocks() int { return chunks(d.cg, tileChannels) }

// scratch is how many elements the packed weights take.
func (d *tileConv) scratch() int { return d.groups * d.panels * d.steps * stepPlaces }

func (d *tileConv) run(p Pool, src, w, y, scratch []float32, then *Epilogue) {
	d.src, d.w, d.y, d.packed, d.then = src, w, y, scratch, then
	d.packing = true
	do(p, d.units(), d)
	d.packing = false
	do(p, chunks(d.count/d.groups, d.samples)*d.groups*d.bands*chunks(d.panels, d.panelsOf), d)
}

func (d *tileConv) Chunk(i int) {
	ws := takeWorkspace()
	if d.packing {
		d.pack(ws, i)
	} else {
		d.compute(ws, i)
	}
	ws.giveBack()
}

// pack splits a unit of weights, a panel for each tap. Taps lie in order in w, and
// are taken apart first.
func (d *tileConv) pack(ws *workspace, unit int) {
	kk := d.im.kh * d.im.kw
	block, panel := unit%d.blocks(), unit/d.blocks()
	group := panel / d.panels
	o, c := panel%d.panels*tileChannels, block*tileChannels
	rows, k := min(tileChannels, d.og-o), min(tileChannels, d.cg-c)
	step := chunks(kk, depthStep) * depthStep * tileChannels
	w := d.w[group*d.og*d.cg*kk+o*d.wo+c*d.wc:]
	g := gemm{level: d.level, form: split, a: operand{rs: step, cs: 1}}
	if d.wc == kk {
		d.takeApart(ws.b, w, rows, d.wo, k)
	} else {
		d.takeApart(ws.b, w, k, d.wc, rows)
		g.a.rs, g.a.cs = 1, step
	}
	odd := d.odd[unit*tileChannels:][:tileChannels]
	clear(odd)
	for t := range kk {
		g.a.data = ws.b[t*tileChannels:]
		g.tilesOfA(ws, d.packed[(panel*d.steps+block*kk+t)*stepPlaces:], 0, rows, 0, k)
		for i := 0; ws.odd.rows && i < rows; i++ {
			for j := range k {
				odd[i] = odd[i] || isOdd(g.a.data[i*g.a.rs+j*g.a.cs])
			}
		}
	}
}

// takeApart writes [outer][tap][inner channel] of weights whose inner channels lie
// in order, and outer ones stride apart.
func (d *tileConv) takeApart(dst, w []float32, outer, stride, inner int) {
	kk, lanes := d.im.kh*d.im.kw, levelSizes[d.level].lanes
	step := chunks(kk, depthStep) * depthStep * tileChannels
	for i := range outer {
		from, to, c := w[i*stride:], dst[i*step:], 0
		for ; c+lanes <= inner; c += lanes {
			d.level.transpose(&to[c], tileChannels, &from[c*kk], kk, kk)
		}
		for ; c < inner; c++ {
			for t, v := range from[c*kk:][:kk] {
				to[t*tileChannels+c] = v
			}
		}
	}
}

// compute computes some panels of a band of some samples.
func (d *tileConv) compute(ws *workspace, i int) {
	ranges := chunks(d.panels, d.panelsOf)
	p0, p1 := span(i%ranges, d.panelsOf, d.panels)
	i /= ranges
	band := i % d.bands
	i /= d.bands
	group := i % d.groups
	s0, s1 := span(i/d.groups, d.samples, d.count/d.groups)
	images := ws.more(d.samples * d.image())
	var odd uint64 // samples with numbers without parts
	for b0 := 0; b0 < d.blocks(); b0 += d.together {
		b1 := min(b0+d.together, d.blocks())
		for s := s0; s < s1; s++ {
			if d.splitBand(ws, images[(s-s0)*d.image():], s*d.groups+group, band, b0, b1) {
				odd |= 1 << (s - s0)
			}
		}
		for panel := p0; panel < p1; panel++ {
			d.multiply(ws, images, group, s0, s1, panel, band, b0, b1)
			for s := s0; s < s1 && b1 == d.blocks(); s++ {
				d.end(ws, s*d.groups+group, panel, band, odd>>(s-s0)&1 > 0)
			}
		}
	}
}

// multiply adds up blocks b0..b1 of channels for a panel of a band of some samples.
func (d *tileConv) multiply(ws *workspace, images []float32, group, s0, s1, panel, band, b0, b1 int) {
	kk, pixels := d.im.kh*d.im.kw, d.pixels[0]
	if band == d.bands-1 {
		pixels = d.pixels[1]
	}
	o0, o1 := span(panel, tileChannels, d.og)
	r0, _ := d.rows(band)
	py := d.im.oh * d.im.ow
	depth, steps := splitSizes.depth(d.together*kk*tileSteps)/tileSteps, (b1-b0)*kk
	ws.shapes.set(o1-o0, tileChannels)
	for k := 0; k < steps; k += depth {
		a := &d.packed[((group*d.panels+panel)*d.steps+b0*kk+k)*stepPlaces]
		taps := d.offsets[k:min(k+depth, steps)]
		for s := s0; s < s1; s++ {
			y := &d.y[((s*d.groups+group)*d.og+o0)*py+r0*d.im.ow]
			x := &images[(s-s0)*d.image()]
			d.level.windows(&ws.shapes, y, py, a, x, d.apart(), d.part(), taps, pixels, o1-o0, min(b0+k, 1), &ws.rows[0])
		}
	}
}

// splitBand splits blocks b0..b1 of the input of a band. It reports whether there are
// numbers without parts.
func (d *tileConv) splitBand(ws *workspace, dst []float32, product, band, b0, b1 int) (odd bool) {
	const half = tileChannels / 2 // a pair is a channel and the one so much later, as in panels
	r0, r1 := d.rows(band)
	n := ((r1-r0-1)*d.im.mul + d.im.kh) * d.im.mul * d.pitch
	whole, part := chunks(n, line)*line, d.part()
	var planes [2][]float32
	for i := range planes {
		planes[i] = ws.a[i*whole:][:whole]
		clear(planes[i][n:])
	}
	for pair := range (b1 - b0) * half {
		to, c := dst[pair*d.apart():], (b0+pair/half)*tileChannels+pair%half
		if c >= d.cg {
			for i := range 3 {
				clear(to[i*part:][:whole])
			}
			continue
		}
		for i, plane := range planes {
			if c := c + i*half; c < d.cg {
				d.copyChannel(plane, product, c, r0, r1)
			} else {
				clear(plane)
			}
		}
		if !d.level.splitChannels(to, part, planes[0], planes[1]) {
			continue
		}
		odd = true
		dropOdd(ws.a[:2*whole])
		d.level.splitChannels(to, part, planes[0], planes[1])
	}
	return odd
}

// dropOdd puts zeros for numbers without parts.
func dropOdd(x []float32) {
	for i, v := range x {
		if isOdd(v) {
			x[i] = 0
		}
	}
}

// end ends a panel of a band: what numbers without parts reach is computed again.
func (d *tileConv) end(ws *workspace, product, panel, band int, odd bool) {
	r0, r1 := d.rows(band)
	o0, o1 := span(panel, tileChannels, d.og)
	at := (product%d.groups*d.panels + panel) * d.blocks() * tileChannels
	if rows := d.odd[at:][:d.blocks()*tileChannels]; odd || slices.Contains(rows, true) {
		d.copyBand(ws.b, product, r0, r1)
		hit := ws.a[:d.plane()]
		d.findOdd(hit, ws.b, r1-r0)
		for o := o0; o < o1; o++ {
			all := false
			for i := o - o0; i < len(rows); i += tileChannels {
				all = all || rows[i]
			}
			d.again(ws, hit, product, o, r0, r1, all)
		}
	}
	if d.then != nil {
		(*d.then).After(product*d.og+o0, product*d.og+o1, r0*d.im.ow, r1*d.im.ow)
	}
}

// findOdd writes 1 where any channel of the copy of a band has a number without
// parts, and else 0.
func (d *tileConv) findOdd(hit, band []float32, rows int) {
	n := ((rows-1)*d.im.mul + d.im.kh) * d.im.mul * d.pitch
	clear(hit)
	for c := range d.cg {
		for i, v := range band[c*d.plane():][:n] {
			if isOdd(v) {
				hit[i] = 1
			}
		}
	}
}

// again computes rows of a channel anew, from the copy of a band, and puts what is
// hit, or all of it.
func (d *tileConv) again(ws *workspace, hit []float32, product, o, r0, r1 int, all bool) {
	kk, ow := d.im.kh*d.im.kw, d.im.ow
	k := d.cg * kk
	w := ws.a[maxRows*blockK/2:][:k]
	for c := range d.cg {
		copy(w[c*kk:][:kk], d.w[product%d.groups*d.og*k+o*d.wo+c*d.wc:])
	}
	for r := r0; r < r1; r++ {
		at, sums := (r-r0)*d.line(), ws.rows[:ow]
		d.level.depth(&sums[0], ow, &ws.b[at], d.line(), &d.taps[0], &w[0], k, 1, ow)
		y := d.y[((product*d.og+o)*d.im.oh+r)*ow:][:ow]
		for j, v := range sums {
			put := all
			for _, tap := range d.taps[:kk] {
				put = put || hit[at+j+tap] > 0
			}
			if put {
				y[j] = v
			}
		}
	}
}
