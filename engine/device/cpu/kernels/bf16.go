package kernels

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/ops"
)

// form is how the factors of a product are multiplied. Products of bfloat16
// round them while they are packed. Where the CPU multiplies pairs fast, two
// steps of k lie in the place of one float32. The product of two bfloat16 is
// exact in float32, so forms other than float differ only in how sums are
// rounded, and in that hardware takes subnormal factors for zeros.
type form uint8

const (
	float   form = iota // as they are
	rounded             // to bfloat16, by the float32 kernels
	pairs               // by AVX512_BF16
	tiles               // by AMX
)

// formOf is what products of bfloat16, or of float32, take.
func (l Level) formOf(bf16 bool) form {
	switch {
	case !bf16:
		return float
	case l == AVX512:
		return fastest()
	}
	return rounded
}

// tileSizes are the measures of the inner kernel for AMX.
var tileSizes = sizes{mr: 32, nr: 32, groups: 2, rate: 8, strip: 32, lanes: 16}

func (l Level) sizes(f form) *sizes {
	if f == tiles {
		return &tileSizes
	}
	return &levelSizes[l]
}

// Rows of a panel of A in tiles are so far apart that 32 of them are in
// different sets of the first cache. A tile takes tileSteps of k.
const (
	tileStride = blockK/2 + line
	tileSteps  = 32
)

// paired reports whether two steps of k lie in one place.
func (f form) paired() bool { return f >= pairs }

// rowsOfA reports whether a packed A keeps its rows: a row in order needs only
// rounding, and tiles need rows.
func (g *gemm) rowsOfA() bool {
	return g.form == tiles || g.form != float && g.a.cs == 1 && !levelSizes[g.level].packs
}

// rowStride is how far apart the rows of a panel of A are that keeps them.
func (g *gemm) rowStride() int {
	if g.form == tiles {
		return tileStride
	}
	return blockK
}

// roundRows writes rows i0..i1 of A as a panel.
func (g *gemm) roundRows(ws *workspace, dst []float32, i0, i1, k0, kn int) {
	stride := g.rowStride()
	switch {
	case g.form == tiles && g.a.cs != 1:
		g.turnRows(ws, dst, i0, i1, k0, kn)
		return
	case g.form == rounded:
		for i := i0; i < i1; i++ {
			g.level.round(dst[(i-i0)*stride:][:kn], g.a.data[i*g.a.rs+k0:][:kn])
		}
		return
	}
	for i := i0; i < i1; i++ {
		g.level.halve(&dst[(i-i0)*stride], &g.a.data[i*g.a.rs+k0], kn)
		if g.form == tiles {
			clear(dst[(i-i0)*stride+chunks(kn, 16)*8:][:chunks(kn, tileSteps)*16-chunks(kn, 16)*8])
		}
	}
}

// turnRows writes rows i0..i1 of a transposed A, at most 32: its columns become
// pairs, and some of those at a time parts of rows.
func (g *gemm) turnRows(ws *workspace, dst []float32, i0, i1, k0, kn int) {
	for k := 0; k < kn; k += tileSteps {
		if kn-k < tileSteps {
			clear(ws.rows[:tileSteps/2*tileSizes.nr])
		}
		g.level.spreadPairs(&ws.rows[0], 0, &g.a.data[i0+(k0+k)*g.a.cs], g.a.cs, i1-i0, min(tileSteps, kn-k))
		g.level.transpose(&dst[k/2], tileStride, &ws.rows[0], tileSizes.nr, tileSizes.nr)
	}
}

// pairB writes columns j0..j1 of B, k0..k0+kn, as panels of pairs.
func (g *gemm) pairB(ws *workspace, p panels, k0, j0, j1 int) {
	g.b.check(k0+p.k, j1)
	if g.b.cs == 1 {
		g.level.spreadPairs(&p.data[0], p.step, &g.b.data[k0*g.b.rs+j0], g.b.rs, j1-j0, p.k)
	}
	nr, lanes := tileSizes.nr, tileSizes.lanes
	for j := j0; g.b.cs != 1 && j < j1; j += lanes {
		for l := range min(lanes, j1-j) {
			g.level.halve(&ws.rows[l*tileStride], &g.b.data[(j+l)*g.b.cs+k0], p.k)
		}
		dst := &p.data[(j-j0)/nr*p.step+(j-j0)%nr]
		g.level.transpose(dst, nr, &ws.rows[0], tileStride, chunks(p.k, 2))
	}
	if g.form != tiles {
		return
	}
	for j := 0; j < j1-j0; j += nr {
		at := j / nr * p.step
		clear(p.data[at+chunks(p.k, 2)*nr : at+chunks(p.k, tileSteps)*16*nr])
	}
}

// roundPanel rounds a panel of k rows of A in place: two rows become one where
// they are paired.
func (g *gemm) roundPanel(panel []float32, width, k int) {
	if g.form == rounded {
		g.level.round(panel[:k*width], panel[:k*width])
		return
	}
	if k%2 == 1 {
		clear(panel[k*width:][:width])
	}
	g.level.pair(&panel[0], width, (k+1)/2)
}

func roundTo(dst, src []float32) {
	for i, v := range src {
		dst[i] = ops.RoundBF16(v)
	}
}

// multiply calls the inner kernel for what g packs.
func (g *gemm) multiply(ws *workspace, c, a *float32, ars, acs int, b panels, rows, cols, add int) {
	switch g.form {
	case tiles:
		g.multiplyTiles(ws, c, a, b, rows, cols, add)
	case pairs:
		g.level.multiplyPairs(c, g.ldc, a, ars, acs, &b.data[0], b.stride, b.step, rows, cols, (b.k+1)/2, add)
	default:
		g.level.multiply(c, g.ldc, a, ars, acs, &b.data[0], b.stride, b.step, rows, cols, b.k, add)
	}
}

// multiplyTiles multiplies with whole panels of B, and then with what is left.
func (g *gemm) multiplyTiles(ws *workspace, c, a *float32, b panels, rows, cols, add int) {
	var sums *float32
	if add != 0 {
		sums = &ws.rows[0]
	}
	nr, k := tileSizes.nr, chunks(b.k, tileSteps)
	if whole := cols / nr; whole > 0 {
		g.level.multiplyTiles(&ws.shapes, c, g.ldc, a, tileStride, &b.data[0], b.step, rows, nr, whole, k, sums)
	}
	if left := cols % nr; left > 0 {
		last := unsafe.Add(unsafe.Pointer(c), (cols-left)*4)
		g.level.multiplyTiles(&ws.shapes, (*float32)(last), g.ldc, a, tileStride, &b.data[cols/nr*b.step], b.step, rows, left, 1, k, sums)
	}
}

// tileShapes is what AMX reads its tiles' shapes from.
type tileShapes struct {
	palette, start uint8
	_              [14]uint8
	rowBytes       [16]uint16
	rows           [16]uint8
}

// set makes the shapes of sums of rows x cols, at most 32 x 32, and their
// factors, in tiles 0 to 3, 4 and 5, and 6 and 7.
func (s *tileShapes) set(rows, cols int) {
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
