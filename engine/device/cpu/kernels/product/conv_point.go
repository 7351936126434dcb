package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// convPoint is y or dx of windows of one pixel: for each group, weights times the channels
// in of all pixels of all samples ([planesOfB]). With a stride, y reads a copy of its
// pixels, and dx is computed as with a stride of 1 and then spread out.
type convPoint struct {
	*convShape
	gradient    bool // dx
	thin        thinned
	in, out     int // channels of a group that are read, and written
	grid        grid
	threads     int // that grid is cut for
	src, w, dst []float32
	then        *work.Epilogue
}

// newConvPoint returns nil where windows have more pixels, or images too few for it.
func newConvPoint(s *convShape, gradient bool) *convPoint {
	sizes := &isaSizes[s.on.ISA]
	d := &convPoint{convShape: s, gradient: gradient, thin: thinnedX(s), in: s.cg(), out: s.og()}
	if gradient {
		d.in, d.out = d.out, d.in
	}
	if s.kk() != 1 || s.pad != 0 || s.py() < sizes.nr || d.in == 0 {
		return nil
	}
	d.grid = grid{count: s.groups, m: d.out, n: s.n * s.py()}
	return d
}

// rounds implements [rounder].
func (d *convPoint) rounds() bool { return d.pairs() }

func (d *convPoint) scratch() int { return d.thin.elems() }

func (d *convPoint) run(p work.Pool, src, w, dst, scratch []float32, then *work.Epilogue) {
	d.src, d.w, d.dst, d.then = src, w, dst, then
	if t := p.Threads(); d.threads != t {
		g := d.product(0)
		d.grid, d.threads = d.grid.forThreads(g.sizes(), t, d.in, g.packsA(), true), t
	}
	switch dense := scratch[:d.thin.elems()]; {
	case len(dense) > 0 && d.gradient:
		d.dst, d.then = dense, nil
		work.Do(p, d.grid.chunks(), d)
		d.thin.spread(p, dense, dst, then)
		return
	case len(dense) > 0:
		d.src = d.thin.of(p, src, dense)
	}
	work.Do(p, d.grid.chunks(), d)
}

// Chunk computes some cells.
func (d *convPoint) Chunk(i int) {
	py := d.py()
	for t, end := d.grid.cellsOf(i); t < end; t++ {
		group, i0, i1, j0, j1 := d.grid.cell(t)
		g := d.product(group)
		planes := planesOfB{
			src: d.src[group*d.in*py:], plane: py,
			apartB: d.groups * d.in * py, apartC: d.groups * d.out * py, rows: d.groups * d.out,
		}
		g.c, g.planes = d.dst[group*d.out*py:], &planes
		g.then, g.row = d.then, group*d.out
		g.do(i0, i1, j0, j1)
	}
}

// product is a group's product, without its planes.
func (d *convPoint) product(group int) gemm {
	n := d.in * d.out
	g := gemm{isa: d.on.ISA, format: formatFloat, ldc: d.py(), k: d.in, a: operand{data: d.w[group*n:][:n], rs: d.in, cs: 1}}
	if d.pairs() {
		g.format = formatPairs
	}
	if d.gradient {
		g.a.rs, g.a.cs = 1, d.out
	}
	return g
}
