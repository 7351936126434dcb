package product

import (
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convAMX is a convolution of planes with AMX, on float32 split into three terms of
// bfloat16 ([splitSizes]). In the product of tiles, a row is a channel out, a column
// is a pixel, and a step of k is a tap of 32 channels in.
//
//  1. The weights are split once a run ([convAMXPack]).
//  2. The input of a band is split once, into planes of pairs of channels. A tap of such
//     a plane is the plane, moved.
//  3. Tiles of 16 pixels are multiplied, for two at a time.
//
// Pixels that lie between the rows of the copy are computed like others, and not
// written, where that takes fewer tiles than to begin a tile at every row.
//
// Inf, NaN and values that overflow cannot be split. They enter as zero; every output
// they touch is recomputed with vector code, as one sum of its own, so that no output's
// bits depend on its neighbours.
type convAMX struct {
	paddedBands
	panels, steps   int       // panels of 32 channels out, and steps of k
	blocksTogether  int       // blocks of 32 channels in that are split together
	samplesPerChunk int       // whose band is split together
	panelsPerChunk  int       // that a band is multiplied with
	tapOffsets      []int     // of a split band, for the blocks that are split together
	pixelTables     [2][]int  // of a whole band, and of the last one: see pixelTable
	w, y            []float32 // weights and output
	packed          []float32 // split weights: [group][panel][block][tap]
	unsplittable    []bool    // rows of packed weights with unsplittable values, by unit
	then            *work.Epilogue
}

const (
	amxChannels    = 2 * 16    // channels in of a step, and channels out of a panel
	amxImageWords  = 160 << 10 // most words of split input at a time
	amxBlocks      = 4         // most blocks of channels in that are split together
	amxWeightWords = 256 << 10 // most words of packed weights that stay in the second cache
	amxMinPanels   = 4         // fewest panels of a chunk for which its input may be split once more
	amxTaps        = 64        // most taps of a window
	amxMinOut      = 8         // fewest channels out for which tiles pay
	amxMinPixels   = 512       // fewest pixels of all samples that pay for splitting weights
	amxMaxSamples  = 64        // most samples of a chunk
)

// stepWords is the words of a step of a panel of weights.
const stepWords = 3 * 2 * tileWords

// newConvAMX returns nil where the way would not pay, or a band would not fit.
func newConvAMX(s planes) *convAMX {
	kk, im := s.kk(), s.im
	switch {
	case s.isa != isa.AMX || s.cg == 0 || im.dir*im.dir > 1 || kk > amxTaps || s.cg*kk > maxRows*blockK/2 || im.ow > maxLanes*blockK:
		return nil
	case 4*s.cg < 3*work.CeilDiv(s.cg, amxChannels)*amxChannels || s.og < amxMinOut || s.whole/s.groups*im.oh*im.ow < amxMinPixels || kk == 1 && im.mul > 1:
		return nil // for steps and tiles would be empty, or there is little to multiply
	}
	d := &convAMX{paddedBands: paddedBands{planes: s}}
	d.panels, d.steps = work.CeilDiv(s.og, amxChannels), d.blocks()*kk
	d.blocksTogether = min(d.blocks(), amxBlocks)
	if !d.cut(d.fits) {
		return nil
	}
	d.locate(d.cg, d.plane())
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

// share decides how many samples and panels a chunk has. Weights that do not stay in
// the cache are read for as many samples as possible.
func (d *convAMX) share() {
	n := d.count / d.groups
	d.samplesPerChunk, d.panelsPerChunk = 1, d.panels
	large := d.panels*d.steps*stepWords > amxWeightWords
	if d.bands == 1 {
		most := d.count / work.EnoughChunks
		if large {
			most = n
		}
		d.samplesPerChunk = work.CeilDiv(n, work.CeilDiv(n, max(1, min(amxMaxSamples, amxImageWords/d.imageWords(), most))))
	}
	if few := work.CeilDiv(n, d.samplesPerChunk) * d.groups * d.bands; large && few < work.EnoughChunks {
		d.panelsPerChunk = min(d.panels, max(amxMinPanels, work.CeilDiv(d.panels, work.CeilDiv(work.EnoughChunks, few))))
	}
}

// fits is a [bandFits].
func (d *convAMX) fits(_, plane int) bool {
	return d.imageWords() <= amxImageWords && 2*plane+2*line <= maxRows*blockK && d.cg*plane+line <= maxCols*blockK
}

// planeWords is the words from one plane to the next: an odd number of cache lines, so
// that the rows of a tile are in different sets of the cache.
func (d *convAMX) planeWords() int { return (work.CeilDiv(d.plane(), line) | 1) * line }

// imageWords is the words of the split input of a band, and of the lines that tiles
// read beyond it.
func (d *convAMX) imageWords() int { return 3*d.termWords() + 2*line }

// termWords is the words of one of its three terms.
func (d *convAMX) termWords() int { return d.blocksTogether * tileSteps / 2 * d.planeWords() }

// pixelTable cuts rows of output into tiles of 16 pixels, an even number of tiles. Some
// of the 16 may lie between the rows of the copy: they do not count. The table has four
// numbers for each tile: the first pixel's offset in the copy, the offset in y of the
// first that counts, a mask of those that count, and a mask of as many low bits.
func (d *convAMX) pixelTable(rows int) (at []int) {
	ow, line := d.im.ow, d.line()
	add := func(from, to, mask, n int) {
		if n > 0 {
			at = append(at, from, to, mask, 1<<n-1)
		}
	}
	if run := (rows-1)*line + ow; work.CeilDiv(run, 16) <= rows*work.CeilDiv(ow, 16) {
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
		for i := range rows * work.CeilDiv(ow, 16) {
			r, p := i/work.CeilDiv(ow, 16), i%work.CeilDiv(ow, 16)*16
			n := min(16, ow-p)
			add(r*line+p, r*ow+p, 1<<n-1, n)
		}
	}
	if len(at)%8 != 0 {
		at = append(at, at[len(at)-4], 0, 0, 0)
	}
	return at
}

// units is the number of units that weights are packed in: a unit is all taps of 32
// channels in and 32 channels out.
func (d *convAMX) units() int { return d.groups * d.panels * d.blocks() }

// blocks is the number of blocks of 32 channels in.
func (d *convAMX) blocks() int { return work.CeilDiv(d.cg, amxChannels) }

// scratch is the packed weights.
func (d *convAMX) scratch() int { return d.groups * d.panels * d.steps * stepWords }

func (d *convAMX) run(p work.Pool, src, w, dst, scratch []float32, then *work.Epilogue) {
	d.src, d.w, d.y, d.packed, d.then = src, w, dst, scratch, then
	work.Do(p, d.units(), (*convAMXPack)(d))
	work.Do(p, work.CeilDiv(d.count/d.groups, d.samplesPerChunk)*d.groups*d.bands*work.CeilDiv(d.panels, d.panelsPerChunk), d)
}

// convAMXPack splits the weights, a unit at a time.
type convAMXPack convAMX

func (d *convAMXPack) Chunk(unit int) {
	ws := takeWorkspace()
	(*convAMX)(d).pack(ws, unit)
	ws.giveBack()
}

// Chunk computes some panels of a band of some samples.
func (d *convAMX) Chunk(i int) {
	ws := takeWorkspace()
	d.compute(ws, i)
	ws.giveBack()
}

// pack splits a unit of weights, a panel for each tap. In w the taps of a channel lie
// side by side; they are separated first.
func (d *convAMX) pack(ws *workspace, unit int) {
	kk := d.kk()
	block, panel := unit%d.blocks(), unit/d.blocks()
	group := panel / d.panels
	o, c := panel%d.panels*amxChannels, block*amxChannels
	rows, k := min(amxChannels, d.og-o), min(amxChannels, d.cg-c)
	step := work.CeilDiv(kk, depthStep) * depthStep * amxChannels
	w := d.w[group*d.og*d.cg*kk+o*d.wo+c*d.wc:]
	g := gemm{isa: d.isa, format: formatSplit, a: operand{rs: step, cs: 1}}
	if d.wc == kk {
		d.packTaps(ws.b, w, rows, d.wo, k)
	} else {
		d.packTaps(ws.b, w, k, d.wc, rows)
		g.a.rs, g.a.cs = 1, step
	}
	unsplittable := d.unsplittable[unit*amxChannels:][:amxChannels]
	clear(unsplittable)
	for t := range kk {
		g.a.data = ws.b[t*amxChannels:]
		g.tilesOfA(ws, d.packed[(panel*d.steps+block*kk+t)*stepWords:], 0, rows, 0, k)
		for i := 0; ws.unsplittable.rows && i < rows; i++ {
			for j := range k {
				unsplittable[i] = unsplittable[i] || isUnsplittable(g.a.data[i*g.a.rs+j*g.a.cs])
			}
		}
	}
}

// packTaps writes [outer channel][tap][inner channel] of weights whose inner channels lie
// in order, and whose outer ones are stride apart.
func (d *convAMX) packTaps(dst, w []float32, outer, stride, inner int) {
	kk, lanes := d.kk(), isaSizes[d.isa].lanes
	step := work.CeilDiv(kk, depthStep) * depthStep * amxChannels
	for i := range outer {
		from, to, c := w[i*stride:], dst[i*step:], 0
		for ; c+lanes <= inner; c += lanes {
			transpose(d.isa, &to[c], amxChannels, &from[c*kk], kk, kk)
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
	ranges := work.CeilDiv(d.panels, d.panelsPerChunk)
	p0, p1 := work.Interval(i%ranges, d.panelsPerChunk, d.panels)
	i /= ranges
	band := i % d.bands
	i /= d.bands
	group := i % d.groups
	s0, s1 := work.Interval(i/d.groups, d.samplesPerChunk, d.count/d.groups)
	images := ws.arena(d.samplesPerChunk * d.imageWords())
	var unsplittable uint64 // a mask of samples with unsplittable values
	for b0 := 0; b0 < d.blocks(); b0 += d.blocksTogether {
		b1 := min(b0+d.blocksTogether, d.blocks())
		for s := s0; s < s1; s++ {
			if d.splitBand(ws, images[(s-s0)*d.imageWords():], s*d.groups+group, band, b0, b1) {
				unsplittable |= 1 << (s - s0)
			}
		}
		for panel := p0; panel < p1; panel++ {
			d.multiply(ws, images, group, s0, s1, panel, band, b0, b1)
			for s := s0; s < s1 && b1 == d.blocks(); s++ {
				d.finish(ws, s*d.groups+group, panel, band, unsplittable>>(s-s0)&1 > 0)
			}
		}
	}
}

// multiply adds blocks b0..b1 of channels in to a panel of a band of some samples.
func (d *convAMX) multiply(ws *workspace, images []float32, group, s0, s1, panel, band, b0, b1 int) {
	kk, pixels := d.kk(), d.pixelTables[0]
	if band == d.bands-1 {
		pixels = d.pixelTables[1]
	}
	o0, o1 := work.Interval(panel, amxChannels, d.og)
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
			multiplyWindows(&ws.config, y, py, a, x, d.planeWords(), d.termWords(), taps, pixels, o1-o0, min(b0+k, 1), &ws.rows[0])
		}
	}
}

// splitBand splits blocks b0..b1 of the input of a band. It reports whether it met
// unsplittable values.
func (d *convAMX) splitBand(ws *workspace, dst []float32, product, band, b0, b1 int) (unsplittable bool) {
	const half = amxChannels / 2 // a pair is a channel and the one so many later, as in panels
	r0, r1 := d.rows(band)
	n := ((r1-r0-1)*d.im.mul + d.im.kh) * d.im.mul * d.pitch
	whole, term := work.CeilDiv(n, line)*line, d.termWords()
	var planes [2][]float32
	for i := range planes {
		planes[i] = ws.a[i*whole:][:whole]
		clear(planes[i][n:])
	}
	for pair := range (b1 - b0) * half {
		to, c := dst[pair*d.planeWords():], (b0+pair/half)*amxChannels+pair%half
		if c >= d.cg {
			for i := range 3 {
				clear(to[i*term:][:whole])
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
		if !splitTwoChannels(to, term, planes[0], planes[1]) {
			continue
		}
		unsplittable = true
		zeroUnsplittable(ws.a[:2*whole])
		splitTwoChannels(to, term, planes[0], planes[1])
	}
	return unsplittable
}

// finish ends a panel of a band: outputs that unsplittable values touch are recomputed,
// and the epilogue follows.
func (d *convAMX) finish(ws *workspace, product, panel, band int, unsplittable bool) {
	r0, r1 := d.rows(band)
	o0, o1 := work.Interval(panel, amxChannels, d.og)
	at := (product%d.groups*d.panels + panel) * d.blocks() * amxChannels
	if rows := d.unsplittable[at:][:d.blocks()*amxChannels]; unsplittable || slices.Contains(rows, true) {
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

// markUnsplittable writes 1 where any channel of the copy of a band has an unsplittable
// value, and 0 elsewhere.
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

// recompute computes rows of a channel with vector code, from the copy of a band. It
// replaces the outputs with a hit in their window, or all of them.
func (d *convAMX) recompute(ws *workspace, hit []float32, product, o, r0, r1 int, all bool) {
	kk, ow := d.kk(), d.im.ow
	k := d.cg * kk
	w := ws.a[maxRows*blockK/2:][:k]
	for c := range d.cg {
		copy(w[c*kk:][:kk], d.w[product%d.groups*d.og*k+o*d.wo+c*d.wc:])
	}
	for r := r0; r < r1; r++ {
		at, sums := (r-r0)*d.line(), ws.rows[:ow]
		depth(d.isa, &sums[0], ow, &ws.b[at], d.line(), &d.taps[0], &w[0], k, 1, ow)
		y := d.y[((product*d.og+o)*d.im.oh+r)*ow:][:ow]
		for j, v := range sums {
			replace := all
			for _, tap := range d.taps[:kk] {
				replace = replace || hit[at+j+tap] > 0
			}
			if replace {
				y[j] = v
			}
		}
	}
}
