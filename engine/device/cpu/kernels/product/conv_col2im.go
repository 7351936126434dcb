package product

import (
	"slices"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// convCol2im is dx of a convolution with a stride s. One product for a sample and
// group, w'[g] * dy[n,g], of CG*KH*KW x H'W' elements over OG steps, gives each
// window's contributions to the pixels under it; and each pixel adds up its windows in
// the order of (kh, kw).
//
// Pixels in a row that are s apart are a phase: they lie under the same elements of
// neighbouring windows, and are added up together.
//
// A chunk is some channels of some rows of one sample's dx.
type convCol2im struct {
	*convShape
	format         format
	channels, rows int // of a chunk
	bands          int // of rows, in a plane
	blocks         int // of channels, in a group
	shared         []col2imBand
	ones           []float32 // a weight of 1 for each element of a window
	dy, wts, dx    []float32
	then           *work.Epilogue
}

// col2imBand is a band of rows, as in every plane.
type col2imBand struct {
	h0, h1 int       // rows of dx
	r0, r1 int       // rows of dy whose windows reach them
	pieces [][]piece // of each s-th row from the first on, from the second on, ...
}

// piece is a rectangle of a phase in which every pixel lies under the same elements
// of its windows.
type piece struct {
	to, rows, cols int   // where it starts among sums, and its sides
	taps           []int // offset of each of its first pixel's windows
}

const (
	maxWindowElems = 1 << 17 // elements of windows in a chunk, if there is a choice
	minWindowRows  = 64      // fewest elements of a window in a chunk that are worth packing dy once more
)

func newConvCol2im(s *convShape) *convCol2im {
	cg, og := s.cg(), s.og()
	d := &convCol2im{
		convShape: s, format: formatOf(s.on, s.bf16, cg*s.kk(), s.py(), og), channels: max(1, cg), rows: max(1, s.h),
	}
	products := s.n * s.groups
	for {
		d.bands, d.blocks = work.CeilDiv(d.h, d.rows), work.CeilDiv(cg, d.channels)
		columns := d.channels * d.kk() * min(d.oh, d.windows(d.rows)) * d.ow
		small := columns <= maxWindowElems
		enough := products*d.bands*d.blocks >= work.EnoughChunks || columns*og < 2*minChunkWork
		switch {
		case small && enough:
			return d.plan()
		case d.channels > 1 && d.channels*d.kk() >= 2*minWindowRows:
			d.channels = (d.channels + 1) / 2
		case d.rows >= 2*d.kh && d.rows > 2*s.stride:
			d.rows = (d.rows + 1) / 2
		default:
			return d.plan()
		}
	}
}

// plan finds the pieces of all bands.
func (d *convCol2im) plan() *convCol2im {
	d.ones = make([]float32, d.kk())
	for i := range d.ones {
		d.ones[i] = 1
	}
	for i := range d.bands {
		var b col2imBand
		b.h0, b.h1 = work.Interval(i, d.rows, d.h)
		b.r0 = work.CeilDiv(max(0, b.h0+d.pad-(d.kh-1)*d.apart), d.stride)
		b.r1 = max(b.r0, min(d.oh, (b.h1-1+d.pad)/d.stride+1))
		for a := range d.stride {
			b.pieces = append(b.pieces, nil)
			rows := d.segments(b.h0+a, b.h1, d.kh, b.r0, b.r1)
			for phase := range min(d.stride, d.w) {
				for _, w := range d.segments(phase, d.w, d.kw, 0, d.ow) {
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
func (d *convCol2im) piece(b *col2imBand, h, w segment, phase int) piece {
	rows, wide := work.CeilDiv(b.h1-b.h0, d.stride), work.CeilDiv(d.w, d.stride)
	q := piece{to: (phase*rows+h.first)*wide + w.first, rows: h.n, cols: w.n}
	for i, kh := range h.elements {
		for j, kw := range w.elements {
			at := (kh*d.kw+kw)*(b.r1-b.r0) + h.windows[i] - b.r0
			q.taps = append(q.taps, at*d.ow+w.windows[j])
		}
	}
	return q
}

// segment is n rows, or columns, of a phase that lie under the same elements of their
// windows: those elements, and for each the first row's window.
type segment struct {
	first, n          int
	elements, windows []int
}

// segments cuts a phase, the pixels from, from+s, ... below end, into runs that the same
// elements of windows lo to hi cover. A window has k elements.
func (d *convCol2im) segments(from, end, k, lo, hi int) []segment {
	var all []segment
	s := d.stride
	for i := 0; from+i*s < end; i++ {
		r := segment{first: i, n: 1}
		for e := range k {
			at := from + i*s + d.pad - e*d.apart
			if window := at / s; at >= 0 && at%s == 0 && window >= lo && window < hi {
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
func (d *convCol2im) windows(rows int) int { return (rows+(d.kh-1)*d.apart-1)/d.stride + 1 }

// rounds implements [rounder].
func (d *convCol2im) rounds() bool { return d.bf16 }

func (d *convCol2im) scratch() int { return 0 }

func (d *convCol2im) run(p work.Pool, dy, w, dx, _ []float32, then *work.Epilogue) {
	d.dy, d.wts, d.dx, d.then = dy, w, dx, then
	work.Do(p, d.n*d.groups*d.blocks*d.bands, d)
}

func (d *convCol2im) Chunk(i int) {
	cg, og, kk := d.cg(), d.og(), d.kk()
	b := &d.shared[i%d.bands]
	i /= d.bands
	c0, c1 := work.Interval(i%d.blocks, d.channels, cg)
	p := i / d.blocks
	n := (b.r1 - b.r0) * d.ow
	ws := takeWorkspace()
	ofSums := d.stride * work.CeilDiv(b.h1-b.h0, d.stride) * work.CeilDiv(d.w, d.stride)
	mem := ws.arena((c1-c0)*kk*n + ofSums)
	cols, sums := mem.cut((c1-c0)*kk*n), mem.cut(ofSums)
	g := gemm{
		isa: d.on.ISA, format: d.format, k: og, c: cols, ldc: n,
		a: operand{data: d.wts[p%d.groups*og*cg*kk+c0*kk:], rs: 1, cs: cg * kk},
		b: operand{data: d.dy[p*og*d.py()+b.r0*d.ow:], rs: d.py(), cs: 1},
	}
	g.do(0, (c1-c0)*kk, 0, n) // in a workspace of its own: cols are in this one
	for c := c0; c < c1; c++ {
		plane := d.dx[(p*cg+c)*d.px():][:d.px()]
		d.assemble(plane[b.h0*d.w:b.h1*d.w], cols[(c-c0)*kk*n:], sums, b)
	}
	ws.giveBack()
	if d.then != nil {
		(*d.then).After(p*cg+c0, p*cg+c1, b.h0*d.w, b.h1*d.w)
	}
}

// assemble puts the pixels of a band of a plane in order, from its channel's
// windows.
func (d *convCol2im) assemble(dst, cols, sums []float32, b *col2imBand) {
	s, wide := d.stride, work.CeilDiv(d.w, d.stride)
	rows := work.CeilDiv(len(dst)/d.w, s)
	for a := range s {
		clear(sums[:s*rows*wide])
		for i := range b.pieces[a] {
			q := &b.pieces[a][i]
			depth(d.on.ISA, &sums[q.to], wide, &cols[0], d.ow, &q.taps[0], &d.ones[0], len(q.taps), q.rows, q.cols)
		}
		interleave(d.on.ISA, dst, sums, a, s, d.w, rows)
	}
}
