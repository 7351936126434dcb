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
type packer struct {
	of             *matmul
	panelsA        int
	unitsA, unitsB int
	lenA, lenB     int // elements of scratch memory; 0 for what tiles pack
	keepB          int // elements of kept memory; 0 for what is not kept
	a, b           []float32
}

const (
	mostPacked = 4 << 20     // places that are worth it: they should stay in a cache
	unitCols   = maxCols / 4 // columns of B that are packed together
)

// set makes the packer of k.
func (p *packer) set(k *matmul) {
	p.of = k
	g, s := k.layout(), k.level.sizes(k.form)
	depth := s.depth(k.k)
	blocks := chunks(k.k, depth)
	if k.parts.count > 1 || k.grid.count != 1 || k.form == split || library.Load() != nil {
		return
	}
	n := chunks(k.grid.n, s.nr) * blocks * g.panelB(depth)
	p.unitsB = chunks(k.grid.n, unitCols) * blocks
	if k.form != float {
		p.keepB = n
	}
	if k.grid.m > largestTileM && g.packsB(largestTileM) && n <= mostPacked {
		p.lenB = n
	}
	if n := chunks(k.grid.m, s.mr) * blocks * k.form.panel(depth); k.form.tiled() && k.grid.n > s.cols && n <= mostPacked {
		p.lenA, p.panelsA = n, chunks(k.grid.m, s.mr)
		p.unitsA = p.panelsA * blocks
	}
}

func (p *packer) bytes() int64 { return int64(p.lenA+p.lenB) * 4 }

// run packs into scratch or kept memory what is not there yet.
func (p *packer) run(pool Pool, a *Args) {
	all, units := floats(a.Scratch, p.lenA+p.lenB), p.unitsA
	p.a, p.b = all[:p.lenA], all[p.lenA:]
	if a.Kept != nil {
		p.b = floats(a.Kept, p.keepB)
	}
	if len(p.b) > 0 && !a.Made {
		units += p.unitsB
	}
	if units > 0 {
		do(pool, units, p)
	}
}

func (p *packer) Chunk(i int) {
	g, ws := p.of.product(0, p.of.c), takeWorkspace()
	depth := g.depth()
	blocks := chunks(g.k, depth)
	k0 := i % blocks * depth
	kn, mr := min(depth, g.k-k0), g.level.sizes(g.form).mr
	if i /= blocks; i < p.panelsA {
		g.tilesOfA(ws, p.a[g.placeA(i*mr, k0):], i*mr, min((i+1)*mr, p.of.grid.m), k0, kn)
	} else {
		j0, j1 := span(i-p.panelsA, unitCols, p.of.grid.n)
		g.packB(ws, g.panelsOfB(p.b, k0, kn, j0), k0, j0, j1)
	}
	ws.giveBack()
}

// panelB is the places that a panel of k steps of B takes.
func (g *gemm) panelB(k int) int {
	if g.form.tiled() {
		return g.form.panel(k)
	}
	s := g.level.sizes(g.form)
	if g.form == pairs {
		k = chunks(k, 2)
	}
	return s.nr * chunks(k, s.depthStep) * s.depthStep
}

// placeA is where a block of the panel that begins at row i is.
func (g *gemm) placeA(i, k0 int) int {
	depth := g.depth()
	return (i/g.level.sizes(g.form).mr*chunks(g.k, depth) + k0/depth) * g.form.panel(depth)
}

// panelsOfB are the panels from column j on of a block of a B that is packed as a
// whole.
func (g *gemm) panelsOfB(packed []float32, k0, kn, j int) panels {
	s, depth := g.level.sizes(g.form), g.depth()
	blocks, panel := chunks(g.k, depth), g.panelB(depth)
	at := (j/s.nr*blocks + k0/depth) * panel
	return panels{data: packed[at:], step: blocks * panel, stride: s.nr, k: kn}
}
