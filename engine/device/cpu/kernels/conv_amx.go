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
type convAMX struct {
	paddedBands
	panels, steps   int // of 32 channels out, and of k
	blocksTogether  int // blocks of 32 channels in that are split together
	samplesPerChunk int // of a chunk
	panelsPerChunk  int // likewise
	tapOffsets      []int
	pixelTables     [2][]int // of a whole band and of the last one
	w, y, packed    []float32
	wo, wc          int    // strides of w: from output to output channel, and from input to input
	unsplittable    []bool // rows of packed weights with numbers without parts, by unit
	packing         bool
	then            *Epilogue
}

const (
	amxChannels    = 2 * 16    // channels in of a step, and out of a panel
	amxImageWords  = 160 << 10 // places of split input at a time
	amxBlocks      = 4         // most blocks of channels that are split together
	amxWeightWords = 256 << 10 // most places of packed weights that stay in the second cache
	amxMinPanels   = 4         // of a chunk, for which its input may be split once more
	amxTaps        = 64        // most taps of a window
	amxMinOut      = 8         // least channels out for which tiles pay
	amxMinPixels   = 512       // least pixels of all samples that pay for splitting weights
	amxMaxSamples  = 64        // of a chunk
)

// stepPlaces is what a step of a panel of weights takes.
const stepWords = 3 * 2 * tileWords

// newTileConv returns nil where it would not pay or not fit. wo and wc are as for
// [newPlaneConv].
func newConvAMX(l ISA, im im2col, count, groups, cg, og, wo, wc int) *convAMX {
	kk := im.kh * im.kw
	switch {
	case l != AMX || cg == 0 || kk > amxTaps || cg*kk > maxRows*blockK/2 || im.ow > maxLanes*blockK:
		return nil
	case 4*cg < 3*ceilDiv(cg, amxChannels)*amxChannels || og < amxMinOut || count/groups*im.oh*im.ow < amxMinPixels || kk == 1 && im.mul > 1:
		return nil // for steps and tiles would be empty, or there is little to multiply
	}
	d := &convAMX{paddedBands: paddedBands{isa: l, im: im, count: count, groups: groups, cg: cg, og: og}, wo: wo, wc: wc}
	d.panels, d.steps = ceilDiv(og, amxChannels), d.blocks()*kk
	d.blocksTogether = min(d.blocks(), amxBlocks)
	if !d.cut(d.fits) {
		return nil
	}
	d.locate()
	for block := range d.blocksTogether {
		for _, at := range d.taps[:kk] {
			d.tapOffsets = append(d.tapOffsets, block*tileSteps/2*d.planeWords()+at)
		}
	}
	d.pixelTables[0] = d.pixelTable(d.bandRows)
	d.pixelTables[1] = d.pixelTable(im.oh - (d.bands-1)*d.bandRows)
	if tiles := len(d.pixelTables[0]) / 4; 10*d.bandRows*im.ow < 6*16*tiles {
		return nil
	}
	d.share()
	d.unsplittable = make([]bool, d.units()*amxChannels)
	return d
}

// share decides what a chunk is: a band of some samples, and some panels of weights.
// Weights that do not stay in the cache are read for as many samples as can be.
func (d *convAMX) share() {
	n := d.count / d.groups
	d.samplesPerChunk, d.panelsPerChunk = 1, d.panels
	large := d.panels*d.steps*stepWords > amxWeightWords
	if d.bands == 1 {
		most := d.count / enoughChunks
		if large {
			most = n
		}
		d.samplesPerChunk = ceilDiv(n, ceilDiv(n, max(1, min(amxMaxSamples, amxImageWords/d.imageWords(), most))))
	}
	if few := ceilDiv(n, d.samplesPerChunk) * d.groups * d.bands; large && few < enoughChunks {
		d.panelsPerChunk = min(d.panels, max(amxMinPanels, ceilDiv(d.panels, ceilDiv(enoughChunks, few))))
	}
}

// fits is a [bandFits].
func (d *convAMX) fits(_, plane int) bool {
	return d.imageWords() <= amxImageWords && 2*plane+2*line <= maxRows*blockK && d.cg*plane+line <= maxCols*blockK
}

// apart is the places from one plane to the next: an odd number of cache lines, so
// that the rows of a tile are in different sets of the cache.
func (d *convAMX) planeWords() int { return (ceilDiv(d.plane(), line) | 1) * line }

// image is the places of the split input of a band, with what tiles read beyond.
func (d *convAMX) imageWords() int { return 3*d.termWords() + 2*line }

// part is the places of a part of it.
func (d *convAMX) termWords() int { return d.blocksTogether * tileSteps / 2 * d.planeWords() }

// locatePixels cuts rows of output into 16 pixels each. Of them it lists where
// they are in the copy, where in y the first that counts is, a mask of those that
// count, and as many low bits. Their number is even.
func (d *convAMX) pixelTable(rows int) (at []int) {
	ow, line := d.im.ow, d.line()
	add := func(from, to, mask, n int) {
		if n > 0 {
			at = append(at, from, to, mask, 1<<n-1)
		}
	}
	if run := (rows-1)*line + ow; ceilDiv(run, 16) <= rows*ceilDiv(ow, 16) {
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
		for i := range rows * ceilDiv(ow, 16) {
			r, p := i/ceilDiv(ow, 16), i%ceilDiv(ow, 16)*16
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
func (d *convAMX) units() int { return d.groups * d.panels * d.blocks() }

// blocks are 32 channels in each.
func (d *convAMX) blocks() int { return ceilDiv(d.cg, amxChannels) }

// scratch is how many elements the packed weights take.
func (d *convAMX) scratch() int { return d.groups * d.panels * d.steps * stepWords }

func (d *convAMX) run(p Pool, src, w, y, scratch []float32, then *Epilogue) {
	d.src, d.w, d.y, d.packed, d.then = src, w, y, scratch, then
	d.packing = true
	do(p, d.units(), d)
	d.packing = false
	do(p, ceilDiv(d.count/d.groups, d.samplesPerChunk)*d.groups*d.bands*ceilDiv(d.panels, d.panelsPerChunk), d)
}

func (d *convAMX) Chunk(i int) {
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
func (d *convAMX) pack(ws *workspace, unit int) {
	kk := d.im.kh * d.im.kw
	block, panel := unit%d.blocks(), unit/d.blocks()
	group := panel / d.panels
	o, c := panel%d.panels*amxChannels, block*amxChannels
	rows, k := min(amxChannels, d.og-o), min(amxChannels, d.cg-c)
	step := ceilDiv(kk, depthStep) * depthStep * amxChannels
	w := d.w[group*d.og*d.cg*kk+o*d.wo+c*d.wc:]
	g := gemm{isa: d.isa, format: formatSplit, a: operand{rs: step, cs: 1}}
	if d.wc == kk {
		d.packTaps(ws.b, w, rows, d.wo, k)
	} else {
		d.packTaps(ws.b, w, k, d.wc, rows)
		g.a.rs, g.a.cs = 1, step
	}
	odd := d.unsplittable[unit*amxChannels:][:amxChannels]
	clear(odd)
	for t := range kk {
		g.a.data = ws.b[t*amxChannels:]
		g.tilesOfA(ws, d.packed[(panel*d.steps+block*kk+t)*stepWords:], 0, rows, 0, k)
		for i := 0; ws.unsplittable.rows && i < rows; i++ {
			for j := range k {
				odd[i] = odd[i] || isUnsplittable(g.a.data[i*g.a.rs+j*g.a.cs])
			}
		}
	}
}

// takeApart writes [outer][tap][inner channel] of weights whose inner channels lie
// in order, and outer ones stride apart.
func (d *convAMX) packTaps(dst, w []float32, outer, stride, inner int) {
	kk, lanes := d.im.kh*d.im.kw, isaSizes[d.isa].lanes
	step := ceilDiv(kk, depthStep) * depthStep * amxChannels
	for i := range outer {
		from, to, c := w[i*stride:], dst[i*step:], 0
		for ; c+lanes <= inner; c += lanes {
			d.isa.transpose(&to[c], amxChannels, &from[c*kk], kk, kk)
		}
		for ; c < inner; c++ {
			for t, v := range from[c*kk:][:kk] {
				to[t*amxChannels+c] = v
			}
		}
	}
}

// compute computes some panels of a band of some samples.
func (d *convAMX) compute(ws *workspace, i int) {
	ranges := ceilDiv(d.panels, d.panelsPerChunk)
	p0, p1 := interval(i%ranges, d.panelsPerChunk, d.panels)
	i /= ranges
	band := i % d.bands
	i /= d.bands
	group := i % d.groups
	s0, s1 := interval(i/d.groups, d.samplesPerChunk, d.count/d.groups)
	images := ws.arena(d.samplesPerChunk * d.imageWords())
	var odd uint64 // samples with numbers without parts
	for b0 := 0; b0 < d.blocks(); b0 += d.blocksTogether {
		b1 := min(b0+d.blocksTogether, d.blocks())
		for s := s0; s < s1; s++ {
			if d.splitBand(ws, images[(s-s0)*d.imageWords():], s*d.groups+group, band, b0, b1) {
				odd |= 1 << (s - s0)
			}
		}
		for panel := p0; panel < p1; panel++ {
			d.multiply(ws, images, group, s0, s1, panel, band, b0, b1)
			for s := s0; s < s1 && b1 == d.blocks(); s++ {
				d.finish(ws, s*d.groups+group, panel, band, odd>>(s-s0)&1 > 0)
			}
		}
	}
}

// multiply adds up blocks b0..b1 of channels for a panel of a band of some samples.
func (d *convAMX) multiply(ws *workspace, images []float32, group, s0, s1, panel, band, b0, b1 int) {
	kk, pixels := d.im.kh*d.im.kw, d.pixelTables[0]
	if band == d.bands-1 {
		pixels = d.pixelTables[1]
	}
	o0, o1 := interval(panel, amxChannels, d.og)
	r0, _ := d.rows(band)
	py := d.im.oh * d.im.ow
	depth, steps := splitSizes.depth(d.blocksTogether*kk*tileSteps)/tileSteps, (b1-b0)*kk
	ws.config.set(o1-o0, amxChannels)
	for k := 0; k < steps; k += depth {
		a := &d.packed[((group*d.panels+panel)*d.steps+b0*kk+k)*stepWords]
		taps := d.tapOffsets[k:min(k+depth, steps)]
		for s := s0; s < s1; s++ {
			y := &d.y[((s*d.groups+group)*d.og+o0)*py+r0*d.im.ow]
			x := &images[(s-s0)*d.imageWords()]
			d.isa.windows(&ws.config, y, py, a, x, d.planeWords(), d.termWords(), taps, pixels, o1-o0, min(b0+k, 1), &ws.rows[0])
		}
	}
}

// splitBand splits blocks b0..b1 of the input of a band. It reports whether there are
// numbers without parts.
func (d *convAMX) splitBand(ws *workspace, dst []float32, product, band, b0, b1 int) (odd bool) {
	const half = amxChannels / 2 // a pair is a channel and the one so much later, as in panels
	r0, r1 := d.rows(band)
	n := ((r1-r0-1)*d.im.mul + d.im.kh) * d.im.mul * d.pitch
	whole, part := ceilDiv(n, line)*line, d.termWords()
	var planes [2][]float32
	for i := range planes {
		planes[i] = ws.a[i*whole:][:whole]
		clear(planes[i][n:])
	}
	for pair := range (b1 - b0) * half {
		to, c := dst[pair*d.planeWords():], (b0+pair/half)*amxChannels+pair%half
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
		if !d.isa.splitChannels(to, part, planes[0], planes[1]) {
			continue
		}
		odd = true
		zeroUnsplittable(ws.a[:2*whole])
		d.isa.splitChannels(to, part, planes[0], planes[1])
	}
	return odd
}

// dropOdd puts zeros for numbers without parts.
func zeroUnsplittable(x []float32) {
	for i, v := range x {
		if isUnsplittable(v) {
			x[i] = 0
		}
	}
}

// end ends a panel of a band: what numbers without parts reach is computed again.
func (d *convAMX) finish(ws *workspace, product, panel, band int, odd bool) {
	r0, r1 := d.rows(band)
	o0, o1 := interval(panel, amxChannels, d.og)
	at := (product%d.groups*d.panels + panel) * d.blocks() * amxChannels
	if rows := d.unsplittable[at:][:d.blocks()*amxChannels]; odd || slices.Contains(rows, true) {
		d.copyBand(ws.b, product, r0, r1)
		hit := ws.a[:d.plane()]
		d.markUnsplittable(hit, ws.b, r1-r0)
		for o := o0; o < o1; o++ {
			all := false
			for i := o - o0; i < len(rows); i += amxChannels {
				all = all || rows[i]
			}
			d.recompute(ws, hit, product, o, r0, r1, all)
		}
	}
	if d.then != nil {
		(*d.then).After(product*d.og+o0, product*d.og+o1, r0*d.im.ow, r1*d.im.ow)
	}
}

// findOdd writes 1 where any channel of the copy of a band has a number without
// parts, and else 0.
func (d *convAMX) markUnsplittable(hit, band []float32, rows int) {
	n := ((rows-1)*d.im.mul + d.im.kh) * d.im.mul * d.pitch
	clear(hit)
	for c := range d.cg {
		for i, v := range band[c*d.plane():][:n] {
			if isUnsplittable(v) {
				hit[i] = 1
			}
		}
	}
}

// again computes rows of a channel anew, from the copy of a band, and puts what is
// hit, or all of it.
func (d *convAMX) recompute(ws *workspace, hit []float32, product, o, r0, r1 int, all bool) {
	kk, ow := d.im.kh*d.im.kw, d.im.ow
	k := d.cg * kk
	w := ws.a[maxRows*blockK/2:][:k]
	for c := range d.cg {
		copy(w[c*kk:][:kk], d.w[product%d.groups*d.og*k+o*d.wo+c*d.wc:])
	}
	for r := r0; r < r1; r++ {
		at, sums := (r-r0)*d.line(), ws.rows[:ow]
		d.isa.depth(&sums[0], ow, &ws.b[at], d.line(), &d.taps[0], &w[0], k, 1, ow)
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
