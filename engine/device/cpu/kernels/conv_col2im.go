package kernels

import "slices"

// col2im is dx of a convolution with a stride s: one product w'[g] * dy[n,g],
// C/G*K*K x H'W' over O/G, gives what each window adds to the pixels under it,
// and each pixel adds up its windows in the order of (kh, kw). Pixels in a row
// that are s apart lie under the same elements of neighbouring windows: they
// are a phase, and are added together.
//
// A chunk is some channels of some rows of one sample's dx.
type convCol2im struct {
	*conv
	format         format
	stride, pad    int
	h, w, oh, ow   int // of dx and dy
	channels, rows int // of a chunk
	bands          int // of rows in a plane
	blocks         int // of channels in a group
	shared         []band
	ones           []float32
}

// band is what planes have in common of a band of their rows.
type band struct {
	h0, h1 int       // rows of dx
	r0, r1 int       // rows of dy whose windows reach them
	pieces [][]piece // of each s-th row from the first on, from the second on, ...
}

// piece is a part of a phase in which every pixel lies under the same elements
// of its windows.
type piece struct {
	to, rows, cols int   // where it starts among sums
	taps           []int // where its first pixel's windows are
}

const (
	maxWindowElems = 1 << 17 // elements of windows in a chunk, if there is a choice
	minColumn      = 64      // elements of a column that are worth packing dy once more
)

func newConvCol2im(k *conv, stride, pad int) *convCol2im {
	cg, og := k.perGroup()
	d := &convCol2im{
		conv: k, format: k.isa.formatOf(false, cg*k.kk, k.py, og), stride: stride, pad: pad,
		h: k.im.oh, w: k.im.ow, oh: k.im.h, ow: k.im.w, channels: max(1, cg), rows: max(1, k.im.oh),
	}
	products := k.n * k.groups
	for {
		d.bands, d.blocks = ceilDiv(d.h, d.rows), ceilDiv(cg, d.channels)
		columns := d.channels * k.kk * min(d.oh, d.windows(d.rows)) * d.ow
		small := columns <= maxWindowElems
		enough := products*d.bands*d.blocks >= enoughChunks || columns*og < 2*minChunkWork
		switch {
		case small && enough:
			return d.plan()
		case d.channels > 1 && d.channels*k.kk >= 2*minColumn:
			d.channels = (d.channels + 1) / 2
		case d.rows >= 2*k.im.kh && d.rows > 2*stride:
			d.rows = (d.rows + 1) / 2
		default:
			return d.plan()
		}
	}
}

// plan finds the pieces of all bands.
func (d *convCol2im) plan() *convCol2im {
	d.ones = make([]float32, d.kk)
	for i := range d.ones {
		d.ones[i] = 1
	}
	for i := range d.bands {
		var b band
		b.h0, b.h1 = interval(i, d.rows, d.h)
		b.r0 = ceilDiv(max(0, b.h0+d.pad-d.im.kh+1), d.stride)
		b.r1 = max(b.r0, min(d.oh, (b.h1-1+d.pad)/d.stride+1))
		for a := range d.stride {
			b.pieces = append(b.pieces, nil)
			rows := segments(b.h0+a, b.h1, d.stride, d.pad, d.im.kh, b.r0, b.r1)
			for phase := range min(d.stride, d.w) {
				for _, w := range segments(phase, d.w, d.stride, d.pad, d.im.kw, 0, d.ow) {
					for _, h := range rows {
						b.pieces[a] = append(b.pieces[a], d.piece(&b, h, w, phase))
					}
				}
			}
		}
		d.shared = append(d.shared, b)
	}
	return d
}

// piece is where rows h and columns w of a phase cross.
func (d *convCol2im) piece(b *band, h, w segment, phase int) piece {
	rows, wide := ceilDiv(b.h1-b.h0, d.stride), ceilDiv(d.w, d.stride)
	q := piece{to: (phase*rows+h.first)*wide + w.first, rows: h.n, cols: w.n}
	for i, kh := range h.elements {
		for j, kw := range w.elements {
			at := (kh*d.im.kw+kw)*(b.r1-b.r0) + h.windows[i] - b.r0
			q.taps = append(q.taps, at*d.ow+w.windows[j])
		}
	}
	return q
}

// run is n rows or columns of a phase from one on that lie under the same
// elements of their windows, and the first one's windows.
type segment struct {
	first, n          int
	elements, windows []int
}

// runs cuts a phase, pixels from, from+s, ... below end, into runs under windows
// lo..hi of k elements.
func segments(from, end, s, pad, k, lo, hi int) []segment {
	var all []segment
	for i := 0; from+i*s < end; i++ {
		r := segment{first: i, n: 1}
		for e := (from + pad) % s; e < k; e += s {
			at := from + i*s + pad - e
			if window := at / s; at >= 0 && window >= lo && window < hi {
				r.elements, r.windows = append(r.elements, e), append(r.windows, window)
			}
		}
		switch last := len(all) - 1; {
		case len(r.elements) == 0:
		case last >= 0 && all[last].first+all[last].n == i && slices.Equal(all[last].elements, r.elements):
			all[last].n++
		default:
			all = append(all, r)
		}
	}
	return all
}

// windows is the most rows of dy whose windows reach some rows of dx.
func (d *convCol2im) windows(rows int) int { return (rows+d.im.kh-2)/d.stride + 1 }

func (d *convCol2im) run(p Pool) { do(p, d.n*d.groups*d.blocks*d.bands, d) }

func (d *convCol2im) Chunk(i int) {
	cg, og := d.perGroup()
	b := &d.shared[i%d.bands]
	i /= d.bands
	c0, c1 := interval(i%d.blocks, d.channels, cg)
	p := i / d.blocks
	n := (b.r1 - b.r0) * d.ow
	ws := takeWorkspace()
	ofSums := d.stride * ceilDiv(b.h1-b.h0, d.stride) * ceilDiv(d.w, d.stride)
	mem := ws.arena((c1-c0)*d.kk*n + ofSums)
	cols, sums := mem.cut((c1-c0)*d.kk*n), mem.cut(ofSums)
	g := gemm{
		isa: d.isa, format: d.format, k: og, c: cols, ldc: n,
		a: operand{d.conv.w[p%d.groups*og*cg*d.kk+c0*d.kk:], 1, cg * d.kk},
		b: operand{d.y[p*og*d.py+b.r0*d.ow:], d.py, 1},
	}
	g.do(0, (c1-c0)*d.kk, 0, n) // in a workspace of its own: in this one, cols would be in its way
	for c := c0; c < c1; c++ {
		plane := d.x[(p*cg+c)*d.px:][:d.px]
		d.assemble(plane[b.h0*d.w:b.h1*d.w], cols[(c-c0)*d.kk*n:], sums, b)
	}
	ws.giveBack()
	if d.then != nil {
		(*d.then).After(p*cg+c0, p*cg+c1, b.h0*d.w, b.h1*d.w)
	}
}

// place puts the pixels of a band of a plane in order, from its channel's
// windows.
func (d *convCol2im) assemble(dst, cols, sums []float32, b *band) {
	s, wide := d.stride, ceilDiv(d.w, d.stride)
	rows := ceilDiv(len(dst)/d.w, s)
	for a := range s {
		clear(sums[:s*rows*wide])
		for i := range b.pieces[a] {
			q := &b.pieces[a][i]
			d.isa.depth(&sums[q.to], wide, &cols[0], d.ow, &q.taps[0], &d.ones[0], len(q.taps), q.rows, q.cols)
		}
		interleave(d.isa, dst, sums, a, s, d.w, rows)
	}
}
