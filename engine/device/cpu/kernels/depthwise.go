package kernels

import "github.com/berth-ml/berth/engine/device/cpu/kernels/vec"

// depthwise is a convolution in which each channel has weights of its own, or
// its dx: a plane is copied with its padding, as [direct] does it, and the
// pixels of a row are multiplied with one weight after the other, in the order
// of (kh, kw).
//
// With a stride s, dx has s*s phases, each one of every s-th pixel in both
// directions: they are convolutions of dy with every s-th weight.
type depthwise struct {
	banded
	w, y    []float32
	then    *Epilogue
	kk, per int // weights of a channel, bands in a chunk
	stride  int // of dx, else 1
	h, wid  int // of the output
	phases  []phase
}

// phase is what the pixels of a phase add up.
type phase struct {
	taps    []int // in the copy
	weights []int // of a channel
}

// newDepthwise returns nil where a channel does not stand alone or a plane does
// not fit. stride is 1 but for dx.
func newDepthwise(k *conv, stride int) *depthwise {
	if cg, og := k.perGroup(); cg != 1 || og != 1 || k.n == 0 {
		return nil
	}
	d := &depthwise{
		banded: banded{level: k.level, im: k.im, count: k.n * k.groups, groups: k.groups, cg: 1, og: 1},
		kk:     k.kk, stride: stride, h: k.im.oh, wid: k.im.ow,
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
	d.per = max(1, min(leastWork/(d.bandRows*k.im.ow*k.kk), d.count*d.bands/enoughChunks))
	return d
}

// intoPhases makes d's geometry that of one phase: pixel i of any phase reads
// dy from i+off to i+last.
func (d *depthwise) intoPhases() {
	m, s, pad := &d.im, d.stride, d.im.off
	off, last := -max(0, (max(m.kh, m.kw)-1-pad)/s), (s-1+pad)/s
	m.kh, m.kw = last-off+1, last-off+1
	m.oh, m.ow = chunks(m.oh, s), chunks(m.ow, s)
	m.off, m.dir = off, 1
}

// locatePhases finds the windows of each phase in the copy. from is the geometry
// of dx.
func (d *depthwise) locatePhases(from im2col) {
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

func (d *depthwise) run(p Pool, src, w, y []float32, then *Epilogue) {
	d.src, d.w, d.y, d.then = src, w, y, then
	do(p, chunks(d.count*d.bands, d.per), d)
}

func (d *depthwise) Chunk(i int) {
	ws := takeWorkspace()
	for at, end := span(i, d.per, d.count*d.bands); at < end; at++ {
		plane := at / d.bands
		r0, r1 := d.rows(at % d.bands)
		d.copyBand(ws.b[:bandInput], plane, r0, r1)
		w := d.w[plane%d.groups*d.kk:][:d.kk]
		y := d.y[plane*d.h*d.wid:][:d.h*d.wid]
		h0, h1 := r0*d.stride, min(r1*d.stride, d.h)
		if y = y[h0*d.wid : h1*d.wid]; d.stride > 1 {
			d.mixPhases(ws, y, w, r1-r0)
		} else {
			d.level.depth(&y[0], d.wid, &ws.b[0], d.line(), &d.taps[0], &w[0], d.kk, r1-r0, d.wid)
		}
		if d.then != nil {
			(*d.then).After(plane, plane+1, h0*d.wid, h1*d.wid)
		}
	}
	ws.giveBack()
}

// mixPhases computes the phases of some rows and puts their pixels in order.
func (d *depthwise) mixPhases(ws *workspace, y, w []float32, rows int) {
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
			d.level.depth(&part[0], d.im.ow, &ws.b[0], d.pitch, &p.taps[0], &ws.rows[0], len(p.taps), rows, d.im.ow)
		}
		if b == s-1 {
			mix(d.level, y, sums, i/s, s, d.wid, rows)
		}
	}
}

// mix writes every s-th row of y, whose rows have w pixels, from its phases of so
// many rows.
func mix(l Level, y, sums []float32, first, s, w, rows int) {
	wide := chunks(w, s)
	for r := 0; r < rows && (r*s+first)*w < len(y); r++ {
		row := y[(r*s+first)*w:][:w]
		if s == 2 {
			l.zip(row, sums[r*wide:], sums[(rows+r)*wide:])
			continue
		}
		for b := range min(s, w) {
			at := b
			for _, v := range sums[(b*rows+r)*wide:][:chunks(w-b, s)] {
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
type depthwiseW struct {
	*depthwise
	vec        *vec.Funcs
	n          int
	parts, per int // of the samples
	sums, dw   []float32
	dy         []float32
	finish     bool
}

func newDepthwiseW(k *conv) *depthwiseW {
	of := newDepthwise(k, 1)
	if of == nil {
		return nil
	}
	d := &depthwiseW{depthwise: of, vec: k.level.vec(), n: k.n}
	d.per = chunks(k.n, min(k.n, chunks(enoughChunks, k.groups)))
	d.parts = chunks(k.n, d.per)
	return d
}

// elems is how many sums a channel has.
func (d *depthwiseW) elems() int { return d.kk * levelSizes[d.level].lanes }

func (d *depthwiseW) scratch() int { return d.groups * d.parts * d.elems() }

func (d *depthwiseW) run(p Pool, x, dy, dw, scratch []float32) {
	d.src, d.dy, d.dw, d.sums = x, dy, dw, scratch
	d.finish = false
	do(p, d.groups*d.parts, d)
	d.finish = true
	do(p, chunks(d.groups, chunks(grain, d.parts*d.elems())), d)
}

func (d *depthwiseW) Chunk(i int) {
	if !d.finish {
		d.part(i)
		return
	}
	lo, hi := span(i, chunks(grain, d.parts*d.elems()), d.groups)
	lanes := levelSizes[d.level].lanes
	for c := lo; c < hi; c++ {
		dw := d.dw[c*d.kk:][:d.kk]
		clear(dw)
		for part := range d.parts {
			sums := d.sums[(c*d.parts+part)*d.elems():]
			for t := range dw {
				for _, v := range sums[t*lanes:][:lanes] {
					dw[t] += v
				}
			}
		}
	}
}

// part adds up a part of the samples for a channel.
func (d *depthwiseW) part(i int) {
	ws := takeWorkspace()
	c, first := i/d.parts, i%d.parts*d.per
	all, sums := d.sums[i*d.elems():][:d.elems()], ws.rows[:d.elems()]
	clear(all)
	row := d.im.mul * d.im.mul * d.pitch
	for s := first; s < min(first+d.per, d.n); s++ {
		plane := s*d.groups + c
		for r := 0; r < d.im.oh; r += d.bandRows {
			rows := min(d.bandRows, d.im.oh-r)
			d.copyBand(ws.b[:bandInput], plane, r, r+rows)
			clear(sums)
			y := d.dy[plane*d.h*d.wid+r*d.wid:][:rows*d.wid]
			d.level.depthGrad(&sums[0], &y[0], d.wid, &ws.b[0], row, &d.taps[0], d.kk, rows, d.wid)
			d.vec.Add(all, all, sums)
		}
	}
	ws.giveBack()
}
