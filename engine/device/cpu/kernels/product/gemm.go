package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// gemm is one product: C = A*B, or with add C += A*B, in blocks of K.
//
// The inner kernel of an instruction set computes a few rows and columns of C whose sums
// stay in registers. It reads A through strides, and B row by row: in place, or from
// panels of nr columns where packing pays or where B is not a matrix in memory.
//
// Each element of C is summed over k in order within a block of K, and the blocks' sums
// are added in order. K and the [format] alone decide where blocks end, and so an
// element's bits: its place in C, the packing, and the sharing among chunks do not.
type gemm struct {
	isa    isa.ISA
	format format
	a, b   operand
	im     *im2col    // B is read through it, if not nil
	planes *planesOfB // B and C are images, if not nil
	c      []float32
	ldc    int             // elements of a row of C
	k      int             // steps
	add    bool            // to the elements of C
	packed *packedOperands // operands that are packed already; may be nil
	then   *work.Epilogue  // nil if nothing follows; behind a pointer, or im would escape
	row    int             // row of the whole output at which C starts
}

// packedOperands are A and B of a product packed as a whole; either may be empty. Both
// are [panel][block of K], a panel being nr columns of B or mr rows of A.
type packedOperands struct{ a, b []float32 }

// sizes are the measures of the inner kernel.
func (g *gemm) sizes() *sizes { return sizesOf(g.isa, g.format) }

// depth is the steps of a block.
func (g *gemm) depth() int { return g.sizes().depth(g.k) }

const (
	// Packing a B that lies in order pays from packRows rows of A on. Where each row of B is on a page of its own, it pays
	// if more than packGroups groups of rows read B; up to there, B is fetched ahead in place.
	packRows   = 64
	packGroups = 2
	page       = 1 << 10 // elements
)

// packsA reports whether A goes through a panel: where it is rounded, or
// transposed and its columns are far apart.
func (g *gemm) packsA() bool {
	s := g.sizes()
	return s.packs || g.format != formatFloat || g.a.cs >= s.far
}

// packsB reports whether B goes through panels, for so many rows of A.
func (g *gemm) packsB(rows int) bool {
	s := g.sizes()
	return s.packs || g.format != formatFloat || g.im != nil || g.planes != nil || g.b.cs != 1 ||
		(rows >= packRows || g.b.rs >= page && rows > packGroups*s.mr) && g.b.rs*g.k >= s.reach
}

// group is the rows of group p of so many groups. Rows are divided evenly, because an
// inner kernel of few rows has too few sums to fill the pipeline; but one of AMX takes
// time by the row.
func (g *gemm) group(i0, i1, p, groups int) (i, end int) {
	if mr := g.sizes().mr; g.format.inTiles() {
		return i0 + p*mr, min(i0+(p+1)*mr, i1)
	}
	return i0 + (i1-i0)*p/groups, i0 + (i1-i0)*(p+1)/groups
}

// panelB is the words of a panel of k steps of B.
func (g *gemm) panelB(k int) int {
	if g.format.inTiles() {
		return g.format.panelWords(k)
	}
	s := g.sizes()
	if g.format == formatPairs && g.planes == nil { // planes are paired in place
		k = work.CeilDiv(k, 2)
	}
	return s.nr * work.CeilDiv(k, s.depthStep) * s.depthStep
}

// offsetA is where in a packed A the block from k0 on of the panel from row i on is.
func (g *gemm) offsetA(i, k0 int) int {
	depth := g.depth()
	return (i/g.sizes().mr*work.CeilDiv(g.k, depth) + k0/depth) * g.format.panelWords(depth)
}

// panelsOfB are the panels from column j on of the block from k0 on, in a packed B.
func (g *gemm) panelsOfB(packed []float32, k0, kn, j int) panels {
	s, depth := g.sizes(), g.depth()
	blocks, panel := work.CeilDiv(g.k, depth), g.panelB(depth)
	at := (j/s.nr*blocks + k0/depth) * panel
	return panels{data: packed[at:], step: blocks * panel, stride: s.nr, k: kn}
}
