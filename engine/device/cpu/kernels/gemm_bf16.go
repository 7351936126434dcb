package kernels

import (
	"github.com/berth-ml/berth/engine/ops"
)

// form is how the factors of a product are multiplied. Products of bfloat16
// round them while they are packed. Where the CPU multiplies pairs fast, two
// steps of k lie in the place of one float32. The product of two bfloat16 is
// exact in float32, so forms of bfloat16 differ only in how sums are rounded, and
// in that hardware takes subnormal factors for zeros.
type format uint8

const (
	formatFloat   format = iota // as they are
	formatRounded               // to bfloat16, by the float32 kernels
	formatPairs                 // of bfloat16, by AVX512_BF16
	formatTiles                 // of bfloat16, by AMX
	formatSplit                 // into three parts of bfloat16 each, by AMX: float32
)

// formOf is what a product of m x k and k x n numbers takes.
func (l ISA) formatOf(bf16 bool, m, n, k int) format {
	switch {
	case bf16 && l == AMX:
		return formatTiles
	case bf16 && l == AVX512 && pairsPay:
		return formatPairs
	case bf16:
		return formatRounded
	case l == AMX && splitPays(m, n, k) && library.Load() == nil:
		return formatSplit
	}
	return formatFloat
}

func (l ISA) sizes(f format) *sizes {
	switch f {
	case formatTiles:
		return &tileSizes
	case formatSplit:
		return &splitSizes
	}
	return &isaSizes[l]
}

// rowsOfA reports whether a packed A keeps its rows: a row in order needs only
// rounding.
func (g *gemm) rowsOfA() bool {
	return g.format != formatFloat && g.a.cs == 1 && !isaSizes[g.isa].packs
}

// roundRows writes rows i0..i1 of A as a panel.
func (g *gemm) roundRows(dst []float32, i0, i1, k0, kn int) {
	for i := i0; i < i1; i++ {
		row := dst[(i-i0)*blockK:]
		if g.format == formatRounded {
			g.isa.round(row[:kn], g.a.data[i*g.a.rs+k0:][:kn])
		} else {
			g.isa.halve(&row[0], &g.a.data[i*g.a.rs+k0], kn)
		}
	}
}

// pairB writes columns j0..j1 of B, k0..k0+kn, as panels of pairs.
func (g *gemm) pairB(ws *workspace, p panels, k0, j0, j1 int) {
	g.b.check(k0+p.k, j1)
	s := g.isa.sizes(formatPairs)
	if g.b.cs == 1 {
		g.isa.spreadPairs(&p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, p.k)
		return
	}
	for j := j0; j < j1; j += s.lanes {
		for l := range min(s.lanes, j1-j) {
			g.isa.halve(&ws.rows[l*blockK/2], &g.b.data[(j+l)*g.b.cs+k0], p.k)
		}
		dst := &p.data[(j-j0)/s.nr*p.step+(j-j0)%s.nr]
		g.isa.transpose(dst, s.nr, &ws.rows[0], blockK/2, ceilDiv(p.k, 2))
	}
}

// roundPanel rounds a panel of k rows of A in place: two rows become one where
// they are paired.
func (g *gemm) roundPanel(panel []float32, width, k int) {
	if g.format == formatRounded {
		g.isa.round(panel[:k*width], panel[:k*width])
		return
	}
	if k%2 == 1 {
		clear(panel[k*width:][:width])
	}
	g.isa.pair(&panel[0], width, (k+1)/2)
}

func roundTo(dst, src []float32) {
	for i, v := range src {
		dst[i] = ops.RoundBF16(v)
	}
}

// multiply calls the inner kernel for what g packs.
func (g *gemm) multiply(ws *workspace, c, a *float32, ars, acs int, b panels, rows, cols, add int) {
	switch g.format {
	case formatTiles, formatSplit:
		g.multiplyTiles(ws, c, a, b, rows, cols, add)
	case formatPairs:
		g.isa.multiplyPairs(c, g.ldc, a, ars, acs, &b.data[0], b.stride, b.step, rows, cols, (b.k+1)/2, add)
	default:
		g.isa.multiply(c, g.ldc, a, ars, acs, &b.data[0], b.stride, b.step, rows, cols, b.k, add)
	}
}
