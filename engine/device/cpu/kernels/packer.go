package kernels

// packer packs operands of a product once, before its tiles are computed, where
// each tile would else pack its share again: B where several rows of tiles read
// it, and with AMX, where packing takes more beside multiplying, A where several
// columns of tiles do. Split operands, half as large again as they were, are packed
// where they are wanted: they should not leave the second cache.
//
// Packed, both are [panel][block of K], a panel being nr columns of B, or mr
// rows of A.
type packer struct {
	of             *matmul
	panelsA, units int // units are packsA's and packsB's together
	lenA, lenB     int // elements of scratch memory; 0 for what tiles pack
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
	if n := chunks(k.grid.n, s.nr) * blocks * g.panelB(depth); k.grid.m > largestTileM && g.packsB(largestTileM) && n <= mostPacked {
		p.lenB, p.units = n, chunks(k.grid.n, unitCols)*blocks
	}
	if n := chunks(k.grid.m, s.mr) * blocks * k.form.panel(depth); k.form.tiled() && k.grid.n > s.cols && n <= mostPacked {
		p.lenA, p.panelsA = n, chunks(k.grid.m, s.mr)
		p.units += p.panelsA * blocks
	}
}

func (p *packer) bytes() int64 { return int64(p.lenA+p.lenB) * 4 }

// run packs into scratch memory.
func (p *packer) run(pool Pool, scratch []byte) {
	if p.units > 0 {
		all := floats(scratch, p.lenA+p.lenB)
		p.a, p.b = all[:p.lenA], all[p.lenA:]
		do(pool, p.units, p)
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
