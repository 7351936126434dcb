package kernels

// packer packs operands of a product once, before its tiles are computed, where
// each tile would else pack its share again: B where several rows of tiles read
// it, and with AMX, where packing costs as much as multiplying, A where several
// columns of tiles do.
//
// Packed, both are [panel][block of K], a panel being nr columns of B, or mr
// rows of A, tileStride places apart.
type packer struct {
	of             *matmul
	panelsA, units int // units are packsA's and packsB's together
	lenA, lenB     int // elements of scratch memory; 0 for what tiles pack
	a, b           []float32
}

const (
	mostPacked = 4 << 20     // elements that are worth it: they should stay in a cache
	unitCols   = maxCols / 4 // columns of B that are packed together
)

func newPacker(k *matmul) packer {
	p, g := packer{of: k}, k.layout()
	s, blocks := k.level.sizes(k.form), chunks(k.k, depthOf(k.k))
	if k.parts.count > 1 || k.grid.count != 1 || library.Load() != nil {
		return p
	}
	if n := chunks(k.grid.n, s.nr) * blocks * g.panelB(); k.grid.m > largestTileM && g.packsB(largestTileM) && n <= mostPacked {
		p.lenB, p.units = n, chunks(k.grid.n, unitCols)*blocks
	}
	if n := chunks(k.grid.m, s.mr) * blocks * g.panelOfA(); k.form == tiles && k.grid.n > maxCols && n <= mostPacked {
		p.lenA, p.panelsA = n, chunks(k.grid.m, s.mr)
		p.units += p.panelsA * blocks
	}
	return p
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
	depth := depthOf(g.k)
	blocks := chunks(g.k, depth)
	k0 := i % blocks * depth
	kn, mr := min(depth, g.k-k0), g.level.sizes(g.form).mr
	if i /= blocks; i < p.panelsA {
		g.roundRows(ws, p.a[g.placeA(i*mr, k0):], i*mr, min((i+1)*mr, p.of.grid.m), k0, kn)
	} else {
		j0, j1 := span(i-p.panelsA, unitCols, p.of.grid.n)
		g.packB(ws, g.panelsOfB(p.b, k0, kn, j0), k0, j0, j1)
	}
	ws.giveBack()
}

// panelB and panelOfA are the elements of a panel of one block of K.
func (g *gemm) panelB() int   { return g.level.sizes(g.form).nr * depthOf(g.k) }
func (g *gemm) panelOfA() int { return g.level.sizes(g.form).mr * tileStride }

// placeA is where a block of the panel that begins at row i is.
func (g *gemm) placeA(i, k0 int) int {
	depth := depthOf(g.k)
	return (i/g.level.sizes(g.form).mr*chunks(g.k, depth) + k0/depth) * g.panelOfA()
}

// panelsOfB are the panels from column j on of a block of a B that is packed as a
// whole.
func (g *gemm) panelsOfB(packed []float32, k0, kn, j int) panels {
	s, depth := g.level.sizes(g.form), depthOf(g.k)
	blocks := chunks(g.k, depth)
	at := (j/s.nr*blocks + k0/depth) * g.panelB()
	return panels{data: packed[at:], step: blocks * g.panelB(), stride: s.nr, k: kn}
}
