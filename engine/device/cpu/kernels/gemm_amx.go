package kernels

import (
	"math"
	"unsafe"
)

// Products with AMX, whose registers hold 16 rows of 64 bytes, and whose one
// instruction adds the products of 16 rows of 16 pairs of bfloat16 with as many
// columns to 16x16 sums of float32, at sixteen times the rate of vectors.
//
// A float32 has 24 digits and is the sum of three numbers of 8, so float32 goes
// the same way: of the nine products of parts, the six that matter to a float32
// result are added up. What is left out is at most what rounding one float32 product
// leaves out, mostly far less, and sums are on average nearer to the exact ones than
// those of vectors (TestSplitIsAsExactAsVectors). Three things are not the same. What is
// subnormal counts as zero, parts of numbers and of products, which is to say that
// those below 2^-100 have fewer digits. Products of parts are added up in another
// order, and above 2^127 may overflow earlier. And parts of an infinity cannot be added up: numbers that have no parts
// are taken for zeros, and what they contribute to is computed again with vectors
// ([gemm.again]).

// tileSteps is how many steps of k a tile takes, and tilePlaces how many float32
// would find room in one.
const (
	tileSteps = 32
	tileWords = 16 * 16
)

// tileSizes and splitSizes are the measures of the inner kernels for AMX. A panel
// of A for one block of K takes half of the first cache.
var (
	tileSizes  = sizes{mr: 32, nr: 32, groups: 1, rate: 8, block: 384, depthStep: tileSteps, cols: maxCols}
	splitSizes = sizes{mr: 32, nr: 32, groups: 1, rate: 2, block: 128, depthStep: tileSteps, cols: maxCols}
)

// splitPays reports whether a product of m x k and k x n numbers takes less time
// split, packing included: an element of A is packed in the time of 30 multiply-adds
// that splitting saves, one of B in that of 50.
func splitPays(m, n, k int) bool { return k >= 64 && m*n >= 30*m+50*n }

// tiled reports whether operands are packed as tiles.
func (f format) inTiles() bool { return f == formatTiles || f == formatSplit }

// panel is the places that a panel of A or B takes, for k steps.
func (f format) panelWords(k int) int {
	n := 2 * tileWords * ceilDiv(k, tileSteps)
	if f == formatSplit {
		n *= 3
	}
	return n
}

// tilesOfA writes rows i0..i1 of A, at most 32, as a panel of tiles.
func (g *gemm) tilesOfA(ws *workspace, dst []float32, i0, i1, k0, kn int) {
	g.a.check(i1, k0+kn)
	a, rows := g.a.from(i0, k0), i1-i0
	ws.unsplittable.rows = g.tilesOfRows(dst, a, rows, kn)
	if ws.unsplittable.rows {
		g.tilesOfRows(dst, a.withoutUnsplittable(ws, rows, kn), rows, kn)
	}
}

// tilesOfRows writes the first rows of a, at most 32, as a panel.
func (g *gemm) tilesOfRows(dst []float32, a operand, rows, k int) bool {
	n := g.format.panelWords(k)
	dst = dst[:n]
	if a.cs == 1 {
		return g.isa.tilesOfRows(g.format, &dst[0], &a.data[0], a.rs, rows, k)
	}
	odd := g.isa.tilesOfColumns(g.format, &dst[0], n, &a.data[0], a.cs, rows, k)
	g.isa.turnTiles(&dst[0], n/tileWords)
	return odd
}

// tilesOfB writes columns j0..j1 of B as panels of tiles.
func (g *gemm) tilesOfB(ws *workspace, p panels, k0, j0, j1 int) {
	g.b.check(k0+p.k, j1)
	b, cols := g.b.from(k0, j0), j1-j0
	ws.unsplittable.cols = g.tilesOfColumns(p, b, cols)
	if ws.unsplittable.cols {
		g.tilesOfColumns(p, b.withoutUnsplittable(ws, p.k, cols), cols)
	}
}

// tilesOfColumns writes the first columns of b as panels.
func (g *gemm) tilesOfColumns(p panels, b operand, cols int) (odd bool) {
	n, nr := g.format.panelWords(p.k), g.isa.sizes(g.format).nr
	_ = p.data[(ceilDiv(cols, nr)-1)*p.step+n-1]
	if b.cs == 1 {
		return g.isa.tilesOfColumns(g.format, &p.data[0], p.step, &b.data[0], b.rs, cols, p.k)
	}
	for j := 0; j < cols; j += nr {
		panel := &p.data[j/nr*p.step]
		odd = g.isa.tilesOfRows(g.format, panel, &b.data[j*b.cs], b.cs, min(nr, cols-j), p.k) || odd
		g.isa.turnTiles(panel, n/tileWords)
	}
	return odd
}

// from is o from row i and column j on.
func (o *operand) from(i, j int) operand { return operand{o.data[i*o.rs+j*o.cs:], o.rs, o.cs} }

// isOdd reports whether x has no parts: it is infinite, or NaN, or so large that
// it would round to an infinity.
func isUnsplittable(x float32) bool { return math.Float32bits(x)&^(1<<31) >= 0x7f7f8000 }

// withoutOdd is a copy with zeros for numbers that have no parts.
func (o *operand) withoutUnsplittable(ws *workspace, rows, cols int) operand {
	c := operand{ws.arena(rows * cols), o.rs, o.cs}
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

// odd says of the operands that a workspace holds whether there are numbers
// without parts.
type unsplittable struct{ rows, cols bool }

// keep copies what C holds, for again.
func (g *gemm) saveC(ws *workspace, i0, i1, j0, j1 int) {
	rows, cols := i1-i0, j1-j0
	old := ws.arena(2 * rows * cols)
	for i := range rows {
		copy(old[i*cols:][:cols], g.c[(i0+i)*g.ldc+j0:])
	}
}

// again computes what k0..k0+kn contribute to rows i0..i1 of C once more, with
// vectors, and puts it where a row of A or a column of B has numbers without parts:
// an element's bits so do not depend on its neighbours. With add, that is added to
// what was kept.
func (g *gemm) recompute(ws *workspace, i0, i1, j0, j1, k0, kn int, add bool) {
	rows, cols := i1-i0, j1-j0
	old := ws.arena(2 * rows * cols)
	sums := old[rows*cols:][:rows*cols]
	v := gemm{isa: g.isa, a: g.a.from(i0, k0), b: g.b.from(k0, j0), c: sums, ldc: cols, k: kn}
	v.do(0, rows, 0, cols)
	oddColumn := func(j int) bool {
		for k := range kn {
			if isUnsplittable(v.b.data[k*v.b.rs+j*v.b.cs]) {
				return true
			}
		}
		return false
	}
	put := func(i, j int) {
		x := sums[i*cols+j]
		if add {
			x += old[i*cols+j]
		}
		g.c[(i0+i)*g.ldc+j0+j] = x
	}
	for j := 0; ws.unsplittable.cols && j < cols; j++ {
		for i := 0; i < rows && (i > 0 || oddColumn(j)); i++ {
			put(i, j)
		}
	}
	for i := range rows {
		for k := range kn {
			if ws.unsplittable.rows && isUnsplittable(v.a.data[i*v.a.rs+k*v.a.cs]) {
				for j := range cols {
					put(i, j)
				}
				break
			}
		}
	}
}

// multiplyTiles multiplies with whole panels of B, and then with what is left.
func (g *gemm) multiplyTiles(ws *workspace, c, a *float32, b panels, rows, cols, add int) {
	var sums *float32
	if add != 0 {
		sums = &ws.rows[0]
	}
	nr, k := g.isa.sizes(g.format).nr, ceilDiv(b.k, tileSteps)
	if whole := cols / nr; whole > 0 {
		g.isa.multiplyTiles(&ws.config, g.format, c, g.ldc, a, &b.data[0], b.step, rows, nr, whole, k, sums)
	}
	if left := cols % nr; left > 0 {
		last := unsafe.Add(unsafe.Pointer(c), (cols-left)*4)
		g.isa.multiplyTiles(&ws.config, g.format, (*float32)(last), g.ldc, a, &b.data[cols/nr*b.step], b.step, rows, left, 1, k, sums)
	}
}

// tileShapes is what AMX reads its tiles' shapes from.
type tileConfig struct {
	palette, start uint8
	_              [14]uint8
	rowBytes       [16]uint16
	rows           [16]uint8
	prefetch       prefetch
}

// ask is what a split product fetches into the second cache while it multiplies:
// pairs of lines, row bytes from one to the next, and four more after every
// fourth; from panel to panel it moves on by panel bytes.
type prefetch struct {
	at               uintptr
	row, four, panel int
}

// askGroups groups of rows fetch a block of B between them: 16 rows of each panel
// each, or 4 columns.
const prefetchGroups = 8

// askFor is what group p fetches of the block of B that is packed next, from k0
// and column j on; if there is none, what it reads anyway, a.
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

// set makes the shapes of sums of rows x cols, at most 32 x 32, and their
// factors, in tiles 0 to 3, 4 and 5, and 6 and 7.
func (s *tileConfig) set(rows, cols int) {
	s.palette = 1
	for i := range 2 {
		r, c := min(16, max(0, rows-16*i)), 4*min(16, max(0, cols-16*i))
		for j := range 2 {
			s.rows[2*i+j], s.rowBytes[2*j+i] = uint8(r), uint16(c)
		}
		s.rows[4+i], s.rowBytes[4+i] = uint8(r), 64
		s.rows[6+i], s.rowBytes[6+i] = 16, uint16(c)
	}
	for i := range 8 {
		if s.rows[i] == 0 || s.rowBytes[i] == 0 {
			s.rows[i], s.rowBytes[i] = 0, 0 // not used
		}
	}
}
