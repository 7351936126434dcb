package product

const (
	columnsAtOnce = 64 // columns of C, by singleColumns
	rowsAtOnce    = 16 // rows of a transposed B, and so columns of C, by singleRows
)

// isSingle reports whether doSingle computes a C of m rows: one row of float32, with a B that lies in order along its rows
// or its columns. Each element of B is used once, and so to copy it first would take longer than to multiply it.
func (g *gemm) isSingle(rows, m int) bool {
	return rows == 1 && m == 1 && g.liesInMemory() && !g.sizes().packs && (g.b.rs == 1 || g.b.cs == 1)
}

// liesInMemory reports whether rows of A and all of B are float32 in memory as they are used, and B has no packed copy.
func (g *gemm) liesInMemory() bool {
	return g.k > 0 && g.format == formatFloat && g.a.cs == 1 && g.im == nil && (g.packed == nil || len(g.packed.b) == 0)
}

// doSingle computes columns j0..j1 of a C of one row, some at a time and these over all steps, so that B is read in long
// runs. Each element is the same sum in the same order as do's.
func (g *gemm) doSingle(j0, j1 int) {
	wide := g.singleWidth()
	if j1-j0 < wide || g.add {
		g.do(0, 1, j0, j1)
		return
	}
	g.a.check(1, g.k)
	g.b.check(g.k, j1)
	for j := j0; j < j1; j += wide {
		g.single(min(j, j1-wide)) // the last ones may be computed twice
	}
	if g.then != nil {
		(*g.then).After(g.row, g.row+1, j0, j1)
	}
}

// singleWidth is the columns that single computes.
func (g *gemm) singleWidth() int {
	if g.b.cs == 1 {
		return columnsAtOnce
	}
	return rowsAtOnce
}

// single computes columns of C from j on.
func (g *gemm) single(j int) {
	depth, add := g.depth(), 0
	if g.add {
		add = 1
	}
	for k0 := 0; k0 < g.k; k0 += depth {
		c, b, a, k := &g.c[j], &g.b.data[k0*g.b.rs+j*g.b.cs], &g.a.data[k0], min(depth, g.k-k0)
		if g.b.cs == 1 {
			singleColumns(g.isa, c, b, g.b.rs, a, k, add)
		} else {
			singleRows(g.isa, c, b, g.b.cs, a, k, add)
		}
		add = 1
	}
}
