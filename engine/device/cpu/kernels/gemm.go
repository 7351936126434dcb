package kernels

// The core of every product: C = A*B, or C += A*B, in blocks of K.
//
// The inner kernel of each level ([Level.multiply]) computes a tile of C whose
// sums stay in registers. It reads A through strides, and B row by row: in
// place, or from panels of nr columns where that pays or where B is not a
// matrix in memory. A panel of A and a panel of B for one block of K fit the
// first and the second cache.
//
// Each element of C is summed over k in order within a block of K, and the
// blocks' sums are added in order; K and the [form] decide where blocks end.
// Nothing else decides an element's bits: not where the tile lies or how large it
// is, not what is packed, and not how chunks share the work.
const (
	blockK    = 384 // most steps of k in a block
	depthStep = 16  // blocks and panels are whole numbers of this many steps

	// Packing a B that lies in order pays from so many rows of A on; from fewer
	// where each row of B is on a page of its own: as many as times the elements of
	// such a row make packFar.
	packRows = 64
	packFar  = 12 << 10
	page     = 1 << 10 // elements

	packDepth = 32 // columns at a time in which several panels of A are packed

	// From so many final elements on, an epilogue is called: few enough to be in
	// the first cache still.
	epilogueElems = 4096

	// What a workspace has room for, at any level.
	maxRows  = 64
	maxCols  = 512
	maxLanes = 16
)

// sizes are the measures of an inner kernel.
type sizes struct {
	mr, nr int  // its largest tile
	groups int  // of that many rows whose panels of A are packed together
	rate   int  // how many multiply-adds it makes in the time of one of float32
	strip  int  // rows of a panel of A
	lanes  int  // columns that transpose moves at once
	packs  bool // A and B must be in panels

	// From this many elements from column to column of A, and spanned by all of
	// B, it pays to pack what could be read in place: pages and the sets of the
	// caches run out, and a panel's short rows do not tell the hardware what to
	// fetch next from farther away.
	far, reach int

	block, depthStep int // most steps of k in a block; of what blocks are multiples
	cols             int // most columns that are packed together
}

var isaSizes = [...]sizes{
	Generic: {genericRows, genericCols, 8, 1, genericRows, genericCols, true, 0, 0, blockK, depthStep, maxCols},
	AVX2:    {6, 16, 8, 1, 8, 8, false, 256, 1 << 15, blockK, depthStep, maxCols},
	AVX512:  vectorSizes,
	AMX:     vectorSizes, // of what does not go in tiles
}

var vectorSizes = sizes{8, 32, 8, 1, 8, 16, false, 256, 1 << 15, blockK, depthStep, maxCols}

// operand is a matrix in memory: element (i, j) is data[i*rs+j*cs]. One of the
// strides is 1.
type operand struct {
	data   []float32
	rs, cs int
}

// check panics unless the rows x cols elements are inside data: assembly does
// not check.
func (o *operand) check(rows, cols int) {
	if rows > 0 && cols > 0 {
		_ = o.data[(rows-1)*o.rs+(cols-1)*o.cs]
	}
}

// gemm is one product. b is read through im where that is not nil.
type gemm struct {
	isa    ISA
	a, b   operand
	im     *im2col
	c      []float32
	ldc    int
	k      int
	format format
	packed *prepacker // of operands that are packed already; may be nil
	add    bool       // to what c holds
	then   *Epilogue  // nil if nothing follows; behind a pointer, or im would escape
	row    int        // of the whole output, at which c starts
}

// depth is how many steps of k each block has, the last one perhaps fewer:
// as few blocks as possible, of about the same size.
func (s *sizes) depth(k int) int {
	blocks := max(1, ceilDiv(k, s.block))
	return max(1, ceilDiv(ceilDiv(k, blocks), s.depthStep)) * s.depthStep
}

// depth is that of g's blocks.
func (g *gemm) depth() int { return g.isa.sizes(g.format).depth(g.k) }

// packsA reports whether A goes through a panel: where it is rounded, or
// transposed and its columns are far apart.
func (g *gemm) packsA() bool {
	s := g.isa.sizes(g.format)
	return s.packs || g.format != formatFloat || g.a.cs >= s.far
}

// packsB reports whether B goes through panels, for so many rows of A.
func (g *gemm) packsB(rows int) bool {
	s := g.isa.sizes(g.format)
	return s.packs || g.format != formatFloat || g.im != nil || g.b.cs != 1 ||
		(rows >= packRows || g.b.rs >= page && rows*g.b.rs >= packFar) && g.b.rs*g.k >= s.reach
}

// do computes rows i0..i1 and columns j0..j1 of C.
func (g *gemm) do(i0, i1, j0, j1 int) {
	if !g.packsA() && !g.packsB(i1-i0) && !g.usesLibrary() {
		g.doIn(nil, i0, i1, j0, j1)
		return
	}
	ws := takeWorkspace()
	g.doIn(ws, i0, i1, j0, j1)
	ws.giveBack()
}

// tile is do with a workspace, which may be nil if nothing is packed.
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
	if g.usesLibrary() {
		g.callLibrary(ws, i0, i1, j0, j1)
		return
	}
	depth := g.depth()
	for k0 := 0; k0 < g.k; k0 += depth {
		g.block(ws, i0, i1, j0, j1, k0, min(depth, g.k-k0), g.add || k0 > 0)
	}
}

// block computes the part of a tile that k0..k0+kn contribute.
func (g *gemm) block(ws *workspace, i0, i1, j0, j1, k0, kn int, add bool) {
	g.a.check(i1, k0+kn)
	_ = g.c[(i1-1)*g.ldc+j1-1]
	most := g.isa.sizes(g.format).cols
	for j := j0; j < j1; j += most {
		end := min(j+most, j1)
		nr := g.isa.sizes(g.format).nr
		var b panels
		switch {
		case g.packed != nil && len(g.packed.b) > 0:
			b = g.panelsOfB(g.packed.b, k0, kn, j)
		case g.packsB(i1 - i0):
			b = panels{data: ws.b, step: g.panelB(kn), stride: nr, k: kn}
			g.packB(ws, b, k0, j, end)
		default:
			g.b.check(k0+kn, end)
			b = panels{data: g.b.data[k0*g.b.rs+j:], step: nr, stride: g.b.rs, k: kn}
		}
		g.sweep(ws, b, i0, i1, j, end, k0, add)
	}
}

// sweep multiplies rows i0..i1 of A with panels of B. Rows are divided evenly,
// because an inner kernel of few rows has too few sums to fill the pipeline;
// but one of AMX takes time by the row.
func (g *gemm) sweep(ws *workspace, b panels, i0, i1, j0, j1, k0 int, add bool) {
	s, adds := g.isa.sizes(g.format), 0
	if add {
		adds = 1
	}
	groups := ceilDiv(i1-i0, s.mr)
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
		again := g.format == formatSplit && ws.unsplittable != unsplittable{}
		if again {
			g.saveC(ws, i, end, j0, j1)
		}
		g.multiply(ws, &g.c[i*g.ldc+j0], a, ars, acs, b, end-i, j1-j0, adds)
		if again {
			g.recompute(ws, i, end, j0, j1, k0, b.k, add)
		}
		if last && (end == i1 || (end-done)*(j1-j0) >= epilogueElems) {
			(*g.then).After(g.row+done, g.row+end, j0, j1)
			done = end
		}
	}
}

// group is the rows of number p of that many groups.
func (g *gemm) group(i0, i1, p, groups int) (i, end int) {
	if mr := g.isa.sizes(g.format).mr; g.format.inTiles() {
		return i0 + p*mr, min(i0+(p+1)*mr, i1)
	}
	return i0 + (i1-i0)*p/groups, i0 + (i1-i0)*(p+1)/groups
}
