package kernels

import "github.com/berth-ml/berth/engine/device/cpu/kernels/vec"

// depthwise is a convolution in which each channel has weights of its own, or
// its dx: a plane is copied with its padding, as [direct] does it, and the
// pixels of a row are multiplied with one weight after the other, in the order
// of (kh, kw).
//
// With a stride s, dx has s*s phases, each one of every s-th pixel in both
// directions: they are convolutions of dy with every s-th weight.
type convDepthwise struct {
	paddedBands
	w, y              []float32
	then              *Epilogue
	kk, bandsPerChunk int // weights of a channel, bands in a chunk
	stride            int // of dx, else 1
	h, w2             int // of the output
	phases            []phase
}

// phase is what the pixels of a phase add up.
type phase struct {
	taps    []int // in the copy
	weights []int // of a channel
}

// newDepthwise returns nil where a channel does not stand alone or a plane does
// not fit. stride is 1 but for dx.
func newConvDepthwise(k *conv, stride int) *convDepthwise {
	if cg, og := k.perGroup(); cg != 1 || og != 1 || k.n == 0 {
		return nil
	}
	d := &convDepthwise{
		paddedBands: paddedBands{isa: k.isa, im: k.im, count: k.n * k.groups, groups: k.groups, cg: 1, og: 1},
		kk:          k.kk, stride: stride, h: k.im.oh, w2: k.im.ow,
	}
	if stride > 1 {
		d.intoPhases()
	}
	if d.kk > blockK || !d.cut(d.inWorkspace(stride)) {
		return nil
	}
	if stride > 1 {
		d.locatePhases(k.im)
	} else {
		d.locate()
	}
	d.bandsPerChunk = max(1, min(minChunkWork/(d.bandRows*k.im.ow*k.kk), d.count*d.bands/enoughChunks))
	return d
}

// intoPhases makes d's geometry that of one phase: pixel i of any phase reads
// dy from i+off to i+last.
func (d *convDepthwise) intoPhases() {
	m, s, pad := &d.im, d.stride, d.im.off
	off, last := -max(0, (max(m.kh, m.kw)-1-pad)/s), (s-1+pad)/s
	m.kh, m.kw = last-off+1, last-off+1
	m.oh, m.ow = ceilDiv(m.oh, s), ceilDiv(m.ow, s)
	m.off, m.dir = off, 1
}

// locatePhases finds the windows of each phase in the copy. from is the geometry
// of dx.
func (d *convDepthwise) locatePhases(from im2col) {
	s, pad := d.stride, from.off
	for i := range s * s {
		var p phase
		for kh := (i/s + pad) % s; kh < from.kh; kh += s {
			for kw := (i%s + pad) % s; kw < from.kw; kw += s {
				h, w := (i/s+pad-kh)/s-d.im.off, (i%s+pad-kw)/s-d.im.off
				p.taps = append(p.taps, h*d.pitch+w)
				p.weights = append(p.weights, kh*from.kw+kw)
			}
		}
		d.phases = append(d.phases, p)
	}
}

func (d *convDepthwise) run(p Pool, src, w, y []float32, then *Epilogue) {
	d.src, d.w, d.y, d.then = src, w, y, then
	do(p, ceilDiv(d.count*d.bands, d.bandsPerChunk), d)
}

func (d *convDepthwise) Chunk(i int) {
	ws := takeWorkspace()
	for at, end := interval(i, d.bandsPerChunk, d.count*d.bands); at < end; at++ {
		plane := at / d.bands
		r0, r1 := d.rows(at % d.bands)
		d.copyBand(ws.b[:bandInput], plane, r0, r1)
		w := d.w[plane%d.groups*d.kk:][:d.kk]
		y := d.y[plane*d.h*d.w2:][:d.h*d.w2]
		h0, h1 := r0*d.stride, min(r1*d.stride, d.h)
		if y = y[h0*d.w2 : h1*d.w2]; d.stride > 1 {
			d.interleavePhases(ws, y, w, r1-r0)
		} else {
			d.isa.depth(&y[0], d.w2, &ws.b[0], d.line(), &d.taps[0], &w[0], d.kk, r1-r0, d.w2)
		}
		if d.then != nil {
			(*d.then).After(plane, plane+1, h0*d.w2, h1*d.w2)
		}
	}
	ws.giveBack()
}

// mixPhases computes the phases of some rows and puts their pixels in order.
func (d *convDepthwise) interleavePhases(ws *workspace, y, w []float32, rows int) {
	s, sums := d.stride, ws.b[bandInput:]
	for i := range d.phases {
		p, b := &d.phases[i], i%s
		part := sums[b*rows*d.im.ow:][:rows*d.im.ow]
		if len(p.taps) == 0 {
			clear(part)
		} else {
			for t, at := range p.weights {
				ws.rows[t] = w[at]
			}
			d.isa.depth(&part[0], d.im.ow, &ws.b[0], d.pitch, &p.taps[0], &ws.rows[0], len(p.taps), rows, d.im.ow)
		}
		if b == s-1 {
			interleave(d.isa, y, sums, i/s, s, d.w2, rows)
		}
	}
}

// mix writes every s-th row of y, whose rows have w pixels, from its phases of so
// many rows.
func interleave(l ISA, y, sums []float32, first, s, w, rows int) {
	wide := ceilDiv(w, s)
	for r := 0; r < rows && (r*s+first)*w < len(y); r++ {
		row := y[(r*s+first)*w:][:w]
		if s == 2 {
			l.zip(row, sums[r*wide:], sums[(rows+r)*wide:])
			continue
		}
		for b := range min(s, w) {
			at := b
			for _, v := range sums[(b*rows+r)*wide:][:ceilDiv(w-b, s)] {
				row[at] = v
				at += s
			}
		}
	}
}

// depthwiseW is dw of such a convolution: vectors of sums for each weight of a
// channel and part of the samples, in scratch memory. A plane's sums are added
// to those of the planes before it, and at last parts and lanes to one another,
// in order.
type convDepthwiseWGrad struct {
	*convDepthwise
	vec                         *vec.Funcs
	n                           int
	partials, samplesPerPartial int // of the samples
	sums, dw                    []float32
	dy                          []float32
	finish                      bool
}

func newConvDepthwiseWGrad(k *conv) *convDepthwiseWGrad {
	of := newConvDepthwise(k, 1)
	if of == nil {
		return nil
	}
	d := &convDepthwiseWGrad{convDepthwise: of, vec: k.isa.vec(), n: k.n}
	d.samplesPerPartial = ceilDiv(k.n, min(k.n, ceilDiv(enoughChunks, k.groups)))
	d.partials = ceilDiv(k.n, d.samplesPerPartial)
	return d
}

// elems is how many sums a channel has.
func (d *convDepthwiseWGrad) elems() int { return d.kk * isaSizes[d.isa].lanes }

func (d *convDepthwiseWGrad) scratch() int { return d.groups * d.partials * d.elems() }

func (d *convDepthwiseWGrad) run(p Pool, x, dy, dw, scratch []float32) {
	d.src, d.dy, d.dw, d.sums = x, dy, dw, scratch
	d.finish = false
	do(p, d.groups*d.partials, d)
	d.finish = true
	do(p, ceilDiv(d.groups, ceilDiv(grain, d.partials*d.elems())), d)
}

func (d *convDepthwiseWGrad) Chunk(i int) {
	if !d.finish {
		d.sumPartial(i)
		return
	}
	lo, hi := interval(i, ceilDiv(grain, d.partials*d.elems()), d.groups)
	lanes := isaSizes[d.isa].lanes
	for c := lo; c < hi; c++ {
		dw := d.dw[c*d.kk:][:d.kk]
		clear(dw)
		for part := range d.partials {
			sums := d.sums[(c*d.partials+part)*d.elems():]
			for t := range dw {
				for _, v := range sums[t*lanes:][:lanes] {
					dw[t] += v
				}
			}
		}
	}
}

// part adds up a part of the samples for a channel.
func (d *convDepthwiseWGrad) sumPartial(i int) {
	ws := takeWorkspace()
	c, first := i/d.partials, i%d.partials*d.samplesPerPartial
	all, sums := d.sums[i*d.elems():][:d.elems()], ws.rows[:d.elems()]
	clear(all)
	row := d.im.mul * d.im.mul * d.pitch
	for s := first; s < min(first+d.samplesPerPartial, d.n); s++ {
		plane := s*d.groups + c
		for r := 0; r < d.im.oh; r += d.bandRows {
			rows := min(d.bandRows, d.im.oh-r)
			d.copyBand(ws.b[:bandInput], plane, r, r+rows)
			clear(sums)
			y := d.dy[plane*d.h*d.w2+r*d.w2:][:rows*d.w2]
			d.isa.depthGrad(&sums[0], &y[0], d.w2, &ws.b[0], row, &d.taps[0], d.kk, rows, d.w2)
			d.vec.Add(all, all, sums)
		}
	}
	ws.giveBack()
}
