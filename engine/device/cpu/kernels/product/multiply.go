package product

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// epilogueElems is how many finished elements of C are collected before the epilogue runs on
// them. They are 16 KiB, so they are still in the first-level cache.
const epilogueElems = 4096

// do computes rows i0..i1 and columns j0..j1 of C.
func (g *gemm) do(i0, i1, j0, j1 int) {
	if !g.packsA() && !g.packsB(i1-i0) {
		g.doIn(nil, i0, i1, j0, j1)
		return
	}
	ws := takeWorkspace()
	g.doIn(ws, i0, i1, j0, j1)
	ws.giveBack()
}

// doIn is do in a workspace, which may be nil if nothing is packed.
func (g *gemm) doIn(ws *workspace, i0, i1, j0, j1 int) {
	if i0 >= i1 || j0 >= j1 {
		return
	}
	if g.k == 0 {
		for i := i0; i < i1 && !g.add; i++ {
			clear(g.c[i*g.ldc+j0 : i*g.ldc+j1])
		}
		if g.then != nil {
			(*g.then).After(g.row+i0, g.row+i1, j0, j1)
		}
		return
	}
	if g.planes != nil {
		g.roomForPlanes(ws, i1-i0, j1-j0)
	}
	depth := g.depth()
	for k0 := 0; k0 < g.k; k0 += depth {
		g.block(ws, i0, i1, j0, j1, k0, min(depth, g.k-k0), g.add || k0 > 0)
	}
}

// block adds the contributions of steps k0..k0+kn.
func (g *gemm) block(ws *workspace, i0, i1, j0, j1, k0, kn int, add bool) {
	g.a.check(i1, k0+kn)
	if g.planes == nil {
		_ = g.c[(i1-1)*g.ldc+j1-1]
	}
	most := g.sizes().cols
	for j := j0; j < j1; j += most {
		end := min(j+most, j1)
		nr := g.sizes().nr
		var b panels
		switch {
		case g.packed != nil && len(g.packed.b) > 0:
			b = g.panelsOfB(g.packed.b, k0, kn, j)
		case g.packsB(i1 - i0):
			b = panels{data: ws.b, step: g.panelB(kn), stride: nr, k: kn}
			g.packB(ws, b, k0, j, end)
		default:
			g.b.check(k0+kn, end)
			b = panels{data: g.b.data[k0*g.b.rs+j:], step: nr, stride: g.b.rs, k: kn, ahead: g.b.rs*g.k >= g.sizes().reach}
		}
		g.sweep(ws, b, i0, i1, j, end, k0, add)
	}
}

// sweep multiplies rows i0..i1 of A, a group at a time, with panels of B. For each
// group:
//
//  1. Take its panel of A: packed before, packed now, or rows in place.
//  2. Multiply.
//  3. Where it met unsplittable values, recompute the elements that they touch.
//  4. After the last block of K, call the epilogue for the rows that are final.
func (g *gemm) sweep(ws *workspace, b panels, i0, i1, j0, j1, k0 int, add bool) {
	s, adds := g.sizes(), 0
	if add {
		adds = 1
	}
	groups := work.CeilDiv(i1-i0, s.mr)
	packs, last, done := g.packsA(), g.then != nil && k0+b.k == g.k, i0
	for p := range groups {
		i, end := g.group(i0, i1, p, groups)
		a, ars, acs := &g.a.data[i*g.a.rs+k0*g.a.cs], g.a.rs, g.a.cs
		switch {
		case g.packed != nil && len(g.packed.a) > 0:
			a = &g.packed.a[g.offsetA(i, k0)]
		case packs:
			if p%s.groups == 0 {
				g.packA(ws, i0, i1, p, groups, k0, b.k)
			}
			a, ars, acs = g.panelA(ws, p)
		}
		if g.format == formatSplit {
			ws.config.prefetch = g.prefetchFor(a, p, k0+b.k, j0)
		}
		recompute := g.format == formatSplit && ws.unsplittable != unsplittable{}
		if recompute {
			g.saveC(ws, i, end, j0, j1)
		}
		if g.planes != nil {
			g.multiplyPlanes(ws, a, ars, acs, b, i0, i, end, i1, j0, j1, adds, k0+b.k == g.k)
		} else {
			g.multiply(ws, &g.c[i*g.ldc+j0], a, ars, acs, b, end-i, j1-j0, adds)
		}
		if recompute {
			g.recompute(ws, i, end, j0, j1, k0, b.k, add)
		}
		if last && (end == i1 || (end-done)*(j1-j0) >= epilogueElems) {
			if g.planes != nil {
				g.afterPlanes(done, end, j0, j1)
			} else {
				(*g.then).After(g.row+done, g.row+end, j0, j1)
			}
			done = end
		}
	}
}

// multiply calls the inner kernel of the format.
func (g *gemm) multiply(ws *workspace, c, a *float32, ars, acs int, b panels, rows, cols, add int) {
	switch g.format {
	case formatTiles, formatSplit:
		g.multiplyPanels(ws, c, a, b, rows, cols, add)
	default:
		g.inner(c, g.ldc, a, ars, acs, b.data, b, rows, cols, add)
	}
}

// inner multiplies with panels of b, from the first of panel on.
func (g *gemm) inner(c *float32, ldc int, a *float32, ars, acs int, panel []float32, b panels, rows, cols, add int) {
	switch {
	case g.format == formatPairs:
		gemmPairs(c, ldc, a, ars, acs, &panel[0], b.stride, b.step, rows, cols, (b.k+1)/2, add)
	case b.ahead:
		gemmAhead(g.isa, c, ldc, a, ars, acs, &panel[0], b.stride, b.step, rows, cols, b.k, add)
	default:
		gemmVectors(g.isa, c, ldc, a, ars, acs, &panel[0], b.stride, b.step, rows, cols, b.k, add)
	}
}

// multiplyPanels multiplies tiles with whole panels of B, and then with the columns that
// are left.
func (g *gemm) multiplyPanels(ws *workspace, c, a *float32, b panels, rows, cols, add int) {
	var sums *float32
	if add != 0 {
		sums = &ws.rows[0]
	}
	nr, k := g.sizes().nr, work.CeilDiv(b.k, tileSteps)
	if whole := cols / nr; whole > 0 {
		multiplyTiles(&ws.config, g.format, c, g.ldc, a, &b.data[0], b.step, rows, nr, whole, k, sums)
	}
	if left := cols % nr; left > 0 {
		last := unsafe.Add(unsafe.Pointer(c), (cols-left)*4)
		multiplyTiles(&ws.config, g.format, (*float32)(last), g.ldc, a, &b.data[cols/nr*b.step], b.step, rows, left, 1, k, sums)
	}
}

// saveC copies elements of C before they are multiplied, for recompute.
func (g *gemm) saveC(ws *workspace, i0, i1, j0, j1 int) {
	rows, cols := i1-i0, j1-j0
	old := ws.arena(2 * rows * cols)
	for i := range rows {
		copy(old[i*cols:][:cols], g.c[(i0+i)*g.ldc+j0:])
	}
}

// recompute computes with vector code the contributions of steps k0..k0+kn to rows
// i0..i1 of C. It replaces the elements whose row of A or column of B has an
// unsplittable value, so that no element's bits depend on its neighbours. With add, the
// saved element is added.
func (g *gemm) recompute(ws *workspace, i0, i1, j0, j1, k0, kn int, add bool) {
	rows, cols := i1-i0, j1-j0
	old := ws.arena(2 * rows * cols)
	sums := old[rows*cols:][:rows*cols]
	v := gemm{isa: g.isa, a: g.a.from(i0, k0), b: g.b.from(k0, j0), c: sums, ldc: cols, k: kn}
	v.do(0, rows, 0, cols)
	replace := func(i, j int) {
		x := sums[i*cols+j]
		if add {
			x += old[i*cols+j]
		}
		g.c[(i0+i)*g.ldc+j0+j] = x
	}
	for j := 0; ws.unsplittable.cols && j < cols; j++ {
		for i := 0; i < rows && (i > 0 || v.b.hasUnsplittable(j*v.b.cs, v.b.rs, kn)); i++ {
			replace(i, j)
		}
	}
	for i := 0; ws.unsplittable.rows && i < rows; i++ {
		for j := 0; j < cols && (j > 0 || v.a.hasUnsplittable(i*v.a.rs, v.a.cs, kn)); j++ {
			replace(i, j)
		}
	}
}
