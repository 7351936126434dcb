package kernels

import "github.com/berth-ml/berth/engine/ops"

// Products of bfloat16 round their operands while they are packed. Where the
// CPU multiplies pairs of them fast ([Level.pairs]), two steps of k lie in the place
// of one float32, and the inner kernel takes half as many steps. Elsewhere
// rounded float32 go through the same kernels as all others; the products are
// exact in both, so only the sums' roundings differ.

// rowsOfA reports whether a packed A keeps its rows: a row in order needs only
// rounding.
func (g *gemm) rowsOfA() bool { return g.bf16 && g.a.cs == 1 && !levelSizes[g.level].packs }

// roundRows writes rows i0..i1 of A, blockK elements apart, where panel q is.
func (g *gemm) roundRows(ws *workspace, q, i0, i1, k0, kn int) {
	strip := levelSizes[g.level].strip
	for i := i0; i < i1; i++ {
		dst, src := ws.a[(q*strip+i-i0)*blockK:], g.a.data[i*g.a.rs+k0:][:kn]
		if g.level.pairs() {
			g.level.halve(&dst[0], &src[0], kn)
			continue
		}
		g.level.round(dst[:kn], src)
	}
}

// roundPanel rounds a panel of k rows in place, and reports whether two rows
// are one from then on.
func (l Level) roundPanel(panel []float32, width, k int) (paired bool) {
	if !l.pairs() {
		l.round(panel[:k*width], panel[:k*width])
		return false
	}
	if k%2 == 1 {
		clear(panel[k*width:][:width])
	}
	l.pair(&panel[0], width, (k+1)/2)
	return true
}

func roundTo(dst, src []float32) {
	for i, v := range src {
		dst[i] = ops.RoundBF16(v)
	}
}

// multiply is the level's inner kernel for what g packs.
func (g *gemm) multiply(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int) {
	if g.bf16 && g.level.pairs() {
		g.level.multiplyPairs(c, ldc, a, ars, acs, b, brs, step, rows, cols, k, add)
		return
	}
	g.level.multiply(c, ldc, a, ars, acs, b, brs, step, rows, cols, k, add)
}
