package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// rowsOfA reports whether a packed A keeps its rows: a row in order needs only
// rounding.
func (g *gemm) rowsOfA() bool {
	return g.format != formatFloat && g.a.cs == 1 && !isaSizes[g.isa].packs
}

// roundRows writes rows i0..i1 of A as a panel.
func (g *gemm) roundRows(dst []float32, i0, i1, k0, kn int) {
	if g.format == formatPairs {
		halve(&dst[0], blockK, &g.a.data[i0*g.a.rs+k0], g.a.rs, i1-i0, kn)
		return
	}
	for i := i0; i < i1; i++ {
		round(g.isa, dst[(i-i0)*blockK:][:kn], g.a.data[i*g.a.rs+k0:][:kn])
	}
}

// pairB writes columns j0..j1 of B, steps k0..k0+p.k, as panels of pairs.
func (g *gemm) pairB(ws *workspace, p panels, k0, j0, j1 int) {
	g.b.check(k0+p.k, j1)
	s := sizesOf(g.isa, formatPairs)
	if g.b.cs == 1 {
		spreadPairs(&p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, p.k)
		return
	}
	for j := j0; j < j1; j += s.lanes {
		halve(&ws.rows[0], blockK/2, &g.b.data[j*g.b.cs+k0], g.b.cs, min(s.lanes, j1-j), p.k)
		dst := &p.data[(j-j0)/s.nr*p.step+(j-j0)%s.nr]
		transpose(g.isa, dst, s.nr, &ws.rows[0], blockK/2, work.CeilDiv(p.k, 2))
	}
}

// pairRows rounds a panel of so many pairs of rows in place: rows 2i and 2i+1 become row i. width is a multiple of a vector's lanes.
func pairRows(panel []float32, width, pairs int) {
	_ = panel[2*pairs*width-1]
	if width == 2*line {
		spreadPairs(&panel[0], 0, &panel[0], width, width, 2*pairs)
		return
	}
	for i := range pairs {
		spreadPairs(&panel[i*width], 2*line, &panel[2*i*width], width, width, 2)
	}
}
