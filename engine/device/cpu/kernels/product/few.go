package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/isa"

const (
	mostFew    = 8  // rows of C, by gemmFew
	fewColumns = 16 // of C, and so rows of a transposed B
)

// isFew reports whether doFew computes a C of m rows: a few of float32, with a B that lies in order along its columns. Each
// element of B is used so seldom that to copy it first would take longer than to multiply it.
func (g *gemm) isFew(rows, m int) bool {
	return rows == m && 1 < m && m <= mostFew && g.liesInMemory() && g.isa >= isa.AVX512 && g.planes == nil && g.b.rs == 1 && g.b.cs != 1
}

// doFew computes columns j0..j1 of a C of some rows. Each element is the same sum in the same order as do's.
func (g *gemm) doFew(rows, j0, j1 int) {
	if j1-j0 < fewColumns {
		g.do(0, rows, j0, j1)
		return
	}
	g.a.check(rows, g.k)
	g.b.check(g.k, j1)
	_ = g.c[(rows-1)*g.ldc+j1-1]
	ws, depth := takeWorkspace(), g.depth()
	for k0 := 0; k0 < g.k; k0 += depth {
		k, add := min(depth, g.k-k0), 0
		if g.add || k0 > 0 {
			add = 1
		}
		// Rows of A that are a power of two apart would share lines of the cache with each other and with those of B.
		for i := range rows {
			copy(ws.a[i*blockK:][:k], g.a.data[i*g.a.rs+k0:])
		}
		clear(ws.a[rows*blockK:][:rows%2*k]) // the other one of a pair
		j := j0
		for ; j+fewColumns <= j1; j += fewColumns {
			gemmFew(&g.c[j], g.ldc, &ws.a[0], blockK, &g.b.data[k0+j*g.b.cs], g.b.cs, rows, k, add)
		}
		if j < j1 {
			rest := *g
			rest.a, rest.b, rest.k, rest.add, rest.then = g.a.from(0, k0), g.b.from(k0, 0), k, add > 0, nil
			rest.doIn(ws, 0, rows, j, j1)
		}
	}
	ws.giveBack()
	if g.then != nil {
		(*g.then).After(g.row, g.row+rows, j0, j1)
	}
}
