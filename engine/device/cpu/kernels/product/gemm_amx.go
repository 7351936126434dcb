package product

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// tilesOfA writes rows i0..i1 of A, at most 32, as a panel of tiles. Unsplittable values
// become zeros.
func (g *gemm) tilesOfA(ws *workspace, dst []float32, i0, i1, k0, kn int) {
	g.a.check(i1, k0+kn)
	a, rows := g.a.from(i0, k0), i1-i0
	ws.unsplittable.rows = g.tilesOfRows(dst, a, rows, kn)
	if ws.unsplittable.rows {
		g.tilesOfRows(dst, a.withoutUnsplittable(ws, rows, kn), rows, kn)
	}
}

// tilesOfRows writes the first rows of a, at most 32, as a panel. It reports whether it
// met unsplittable values.
func (g *gemm) tilesOfRows(dst []float32, a operand, rows, k int) bool {
	n := g.format.panelWords(k)
	dst = dst[:n]
	if a.cs == 1 {
		return packTilesOfRows(g.format, &dst[0], &a.data[0], a.rs, rows, k)
	}
	found := packTilesOfColumns(g.format, &dst[0], n, &a.data[0], a.cs, rows, k)
	turnTiles(&dst[0], n/tileWords)
	return found
}

// tilesOfB writes columns j0..j1 of B as panels of tiles. Unsplittable values become
// zeros.
func (g *gemm) tilesOfB(ws *workspace, p panels, k0, j0, j1 int) {
	g.b.check(k0+p.k, j1)
	b, cols := g.b.from(k0, j0), j1-j0
	ws.unsplittable.cols = g.tilesOfColumns(p, b, cols)
	if ws.unsplittable.cols {
		g.tilesOfColumns(p, b.withoutUnsplittable(ws, p.k, cols), cols)
	}
}

// tilesOfColumns writes the first columns of b as panels. It reports whether it met
// unsplittable values.
func (g *gemm) tilesOfColumns(p panels, b operand, cols int) (found bool) {
	n, nr := g.format.panelWords(p.k), sizesOf(g.isa, g.format).nr
	_ = p.data[(work.CeilDiv(cols, nr)-1)*p.step+n-1]
	if b.cs == 1 {
		return packTilesOfColumns(g.format, &p.data[0], p.step, &b.data[0], b.rs, cols, p.k)
	}
	for j := 0; j < cols; j += nr {
		panel := &p.data[j/nr*p.step]
		found = packTilesOfRows(g.format, panel, &b.data[j*b.cs], b.cs, min(nr, cols-j), p.k) || found
		turnTiles(panel, n/tileWords)
	}
	return found
}

// withoutUnsplittable is a copy with zeros for unsplittable values.
func (o *operand) withoutUnsplittable(ws *workspace, rows, cols int) operand {
	c := operand{data: ws.arena(rows * cols), rs: o.rs, cs: o.cs}
	if o.cs == 1 {
		c.rs = cols
	} else {
		c.cs = rows
	}
	for i := range rows {
		for j := range cols {
			x := o.data[i*o.rs+j*o.cs]
			if isUnsplittable(x) {
				x = 0
			}
			c.data[i*c.rs+j*c.cs] = x
		}
	}
	return c
}

// prefetchGroups groups of rows fetch a block of B between them: each 16 rows of a
// panel, or 4 columns.
const prefetchGroups = 8

// prefetchFor is the share of group p in fetching the block of B that is packed next,
// from k0 and column j on. If there is none, it fetches a, which it reads anyway.
func (g *gemm) prefetchFor(a *float32, p, k0, j int) prefetch {
	if k0 >= g.k || p >= prefetchGroups {
		return prefetch{at: uintptr(unsafe.Pointer(a))}
	}
	at := uintptr(unsafe.Pointer(&g.b.data[k0*g.b.rs+j*g.b.cs]))
	if g.b.cs == 1 {
		row := g.b.rs * 4
		return prefetch{at: at + uintptr(p*16*row), row: row, panel: 128}
	}
	column := g.b.cs * 4
	return prefetch{at: at + uintptr(p*4*column), row: 128, four: column - 512, panel: 32 * column}
}
