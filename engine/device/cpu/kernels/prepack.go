package kernels

// packer packs operands of a product once, before its tiles are computed, where
// each tile would else pack its share again: B where several rows of tiles read
// it, and with AMX, where packing takes more beside multiplying, A where several
// columns of tiles do. Split operands, half as large again as they were, are packed
// where they are wanted: they should not leave the second cache.
//
// A B of bfloat16 can also be kept packed from run to run ([Keeper]): packing takes
// as long as multiplying with some hundred rows. One of float32 is not: it is no
// smaller packed, and to read it packed from memory takes at least as long as to
// pack what is read.
//
// Packed, both are [panel][block of K], a panel being nr columns of B, or mr
// rows of A.
type prepacker struct {
	of             *matmul
	panelsA        int
	unitsA, unitsB int
	lenA, lenB     int // elements of scratch memory; 0 for what tiles pack
	cacheB         int // elements of kept memory; 0 for what is not kept
	a, b           []float32
}

const (
	maxPackedWords = 4 << 20     // places that are worth it: they should stay in a cache
	unitCols       = maxCols / 4 // columns of B that are packed together
)

// set makes the packer of k.
func (p *prepacker) set(k *matmul) {
	p.of = k
	g, s := k.layout(), k.isa.sizes(k.format)
	depth := s.depth(k.k)
	blocks := ceilDiv(k.k, depth)
	if k.partials.count > 1 || k.grid.count != 1 || k.format == formatSplit || library.Load() != nil {
		return
	}
	n := ceilDiv(k.grid.n, s.nr) * blocks * g.panelB(depth)
	p.unitsB = ceilDiv(k.grid.n, unitCols) * blocks
	if k.format != formatFloat {
		p.cacheB = n
	}
	if k.grid.m > maxCellRows && g.packsB(maxCellRows) && n <= maxPackedWords {
		p.lenB = n
	}
	if n := ceilDiv(k.grid.m, s.mr) * blocks * k.format.panelWords(depth); k.format.inTiles() && k.grid.n > s.cols && n <= maxPackedWords {
		p.lenA, p.panelsA = n, ceilDiv(k.grid.m, s.mr)
		p.unitsA = p.panelsA * blocks
	}
}

func (p *prepacker) bytes() int64 { return int64(p.lenA+p.lenB) * 4 }

// run packs into scratch or kept memory what is not there yet.
func (p *prepacker) run(pool Pool, a *Args) {
	all, units := floats(a.Scratch, p.lenA+p.lenB), p.unitsA
	p.a, p.b = all[:p.lenA], all[p.lenA:]
	if a.Cache != nil {
		p.b = floats(a.Cache, p.cacheB)
	}
	if len(p.b) > 0 && !a.Cached {
		units += p.unitsB
	}
	if units > 0 {
		do(pool, units, p)
	}
}

func (p *prepacker) Chunk(i int) {
	g, ws := p.of.product(0, p.of.c), takeWorkspace()
	depth := g.depth()
	blocks := ceilDiv(g.k, depth)
	k0 := i % blocks * depth
	kn, mr := min(depth, g.k-k0), g.isa.sizes(g.format).mr
	if i /= blocks; i < p.panelsA {
		g.tilesOfA(ws, p.a[g.offsetA(i*mr, k0):], i*mr, min((i+1)*mr, p.of.grid.m), k0, kn)
	} else {
		j0, j1 := interval(i-p.panelsA, unitCols, p.of.grid.n)
		g.packB(ws, g.panelsOfB(p.b, k0, kn, j0), k0, j0, j1)
	}
	ws.giveBack()
}

// panelB is the places that a panel of k steps of B takes.
func (g *gemm) panelB(k int) int {
	if g.format.inTiles() {
		return g.format.panelWords(k)
	}
	s := g.isa.sizes(g.format)
	if g.format == formatPairs {
		k = ceilDiv(k, 2)
	}
	return s.nr * ceilDiv(k, s.depthStep) * s.depthStep
}

// placeA is where a block of the panel that begins at row i is.
func (g *gemm) offsetA(i, k0 int) int {
	depth := g.depth()
	return (i/g.isa.sizes(g.format).mr*ceilDiv(g.k, depth) + k0/depth) * g.format.panelWords(depth)
}

// panelsOfB are the panels from column j on of a block of a B that is packed as a
// whole.
func (g *gemm) panelsOfB(packed []float32, k0, kn, j int) panels {
	s, depth := g.isa.sizes(g.format), g.depth()
	blocks, panel := ceilDiv(g.k, depth), g.panelB(depth)
	at := (j/s.nr*blocks + k0/depth) * panel
	return panels{data: packed[at:], step: blocks * panel, stride: s.nr, k: kn}
}
