package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// prepacker packs operands of a product once, before its cells are computed, where each
// cell would pack its share again: B where several rows of cells read it, and with AMX,
// where packing is slow compared with multiplying, A where several columns of cells do.
// Split operands, half as large again as they were, are packed where they are wanted: they
// should not leave the second cache.
//
// A B of bfloat16 can also stay packed from run to run ([PackCache]): packing takes as long
// as multiplying with some hundred rows. One of float32 is packed by each run: it is no
// smaller packed, and reading it packed from memory takes at least as long as packing it.
type prepacker struct {
	m, n           int // sides of C
	panelsA        int
	unitsA, unitsB int // chunks of packing
	lenA, lenB     int // words of scratch memory; 0 where cells pack
	cacheB         int // words of cache memory; 0 where B is not cached
	packed         packedOperands
	g              gemm
}

const (
	maxPackedWords = 4 << 20     // that are worth it: they should stay in a cache
	unitCols       = maxCols / 4 // columns of B that are packed together
)

// newPrepacker is for products like g, without their memory, whose cells are those of a
// grid. shared says that a cell's sums are put together from partial sums.
func newPrepacker(g gemm, cells grid, shared bool) (p prepacker) {
	p.m, p.n = cells.m, cells.n
	if shared || cells.count != 1 || g.format == formatSplit {
		return p
	}
	s, depth := g.sizes(), g.depth()
	blocks := work.CeilDiv(g.k, depth)
	n := work.CeilDiv(p.n, s.nr) * blocks * g.panelB(depth)
	p.unitsB = work.CeilDiv(p.n, unitCols) * blocks
	if g.format != formatFloat {
		p.cacheB = n
	}
	if p.m > maxCellRows && g.packsB(maxCellRows) && n <= maxPackedWords {
		p.lenB = n
	}
	if n := work.CeilDiv(p.m, s.mr) * blocks * g.format.panelWords(depth); g.format.inTiles() && p.n > s.cols && n <= maxPackedWords {
		p.lenA, p.panelsA = n, work.CeilDiv(p.m, s.mr)
		p.unitsA = p.panelsA * blocks
	}
	return p
}

func (p *prepacker) bytes() int64 { return int64(p.lenA+p.lenB) * 4 }

// bind takes the memory of a run, and returns the number of chunks of packing that it
// needs: none for operands that the cache has.
func (p *prepacker) bind(a *work.Args) (units int) {
	all := work.Floats(a.Scratch, p.lenA+p.lenB)
	p.packed.a, p.packed.b = all[:p.lenA], all[p.lenA:]
	if a.Cache != nil {
		p.packed.b = work.Floats(a.Cache, p.cacheB)
	}
	if units = p.unitsA; len(p.packed.b) > 0 && !a.Cached {
		units += p.unitsB
	}
	return units
}

// run packs the operands of g.
func (p *prepacker) run(pool work.Pool, units int, g gemm) {
	p.g = g
	work.Do(pool, units, p)
}

// Chunk packs a block of K of a panel of A, or of some columns of B.
func (p *prepacker) Chunk(i int) {
	g, ws := p.g, takeWorkspace()
	depth := g.depth()
	blocks := work.CeilDiv(g.k, depth)
	k0 := i % blocks * depth
	kn, mr := min(depth, g.k-k0), g.sizes().mr
	if i /= blocks; i < p.panelsA {
		g.tilesOfA(ws, p.packed.a[g.offsetA(i*mr, k0):], i*mr, min((i+1)*mr, p.m), k0, kn)
	} else {
		j0, j1 := work.Interval(i-p.panelsA, unitCols, p.n)
		g.packB(ws, g.panelsOfB(p.packed.b, k0, kn, j0), k0, j0, j1)
	}
	ws.giveBack()
}
