package kernels

import "math"

// How products are shared among threads: enough chunks that a few threads end
// at about the same time, of enough multiply-adds each to be worth handing to
// one.
const (
	enoughChunks = 16
	leastWork    = 1 << 18
	largestTileM = 512
)

// grid is how the m x n elements of each of count products are cut into tiles,
// and how many tiles in a row make a chunk.
type grid struct {
	m, n, count    int
	stepM, stepN   int
	tilesM, tilesN int
	perChunk       int
}

// newGrid prefers large tiles, which share packed panels. Columns are cut
// first, because no two of their tiles read the same part of B, unless
// rowsFirst says that A is what is read at a cost; columns not below a panel,
// and rows not below leastM.
func newGrid(s *sizes, count, m, n, k, leastM int, rowsFirst bool) grid {
	g := grid{m: m, n: n, count: count}
	g.cut(s, largestTileM, s.cols)
	work := func() int { return g.stepM * g.stepN * max(1, k) / s.rate }
	for g.tiles() < enoughChunks && work() >= 2*leastWork {
		switch rows, columns := g.stepM >= 2*leastM, g.stepN > s.nr; {
		case columns && !(rows && rowsFirst):
			g.cut(s, g.stepM, g.stepN/2)
		case rows:
			g.cut(s, g.stepM/2, g.stepN)
		default:
			return g
		}
	}
	g.perChunk = max(1, min(leastWork/max(1, work()), g.tiles()/enoughChunks))
	return g
}

// What a product costs beside its multiply-adds, each of which counts as one:
// the handing out of a chunk, and for an element of an operand, reading it again
// in place or packing it.
const (
	costChunk = 80_000
	costRead  = 4
	costPack  = 18
	lateness  = 0.15 // of a tile
)

// mostCuts is how many ways to cut rows, and columns, are compared.
const mostCuts = 32

// forThreads is g cut in the way that should take that many threads the least
// time, where one product of k steps packs A or B, or does not: large tiles
// are packed once and read from less often, but threads should end together.
func (g grid) forThreads(s *sizes, threads, k int, packsA, packsB bool) grid {
	best, least := g, math.Inf(1)
	a, b := costRead, costRead
	if packsA {
		a = costPack
	}
	if packsB {
		b = costPack
	}
	for i := range min(mostCuts, chunks(g.m, s.mr)) {
		for j := range min(mostCuts, chunks(g.n, s.nr)) {
			try := g
			try.cut(s, chunks(g.m, chunks(g.m, largestTileM)+i), chunks(g.n, chunks(g.n, s.cols)+j))
			m, n := try.stepM, try.stepN
			tile := k*(m*n/s.rate+m*a+n*b) + costChunk
			// The threads' last tiles seldom end at once.
			if cost := (float64(chunks(try.tiles(), threads)) + lateness) * float64(tile); cost < least {
				best, least = try, cost
			}
		}
	}
	best.perChunk = max(1, min(leastWork/max(1, best.stepM*best.stepN*k/s.rate), best.tiles()/(4*threads)))
	return best
}

// cut divides rows and columns evenly into steps of at most so many, rounded
// up to whole tiles of the inner kernel.
func (g *grid) cut(s *sizes, stepM, stepN int) {
	even := func(n, step, unit int) (int, int) {
		step = max(unit, step)
		step = chunks(chunks(n, max(1, chunks(n, step))), unit) * unit
		step = max(unit, step)
		return step, chunks(n, step)
	}
	g.stepM, g.tilesM = even(g.m, stepM, s.mr)
	g.stepN, g.tilesN = even(g.n, stepN, s.nr)
	g.perChunk = 1
}

// tiles is the number of tiles of all products, and chunks that of chunks.
func (g *grid) tiles() int  { return g.count * g.tilesM * g.tilesN }
func (g *grid) chunks() int { return chunks(g.tiles(), g.perChunk) }

// of are the tiles of chunk i.
func (g *grid) of(i int) (first, end int) { return span(i, g.perChunk, g.tiles()) }

// at is tile i: which product, rows and columns.
func (g *grid) at(i int) (p, i0, i1, j0, j1 int) {
	j0, j1 = span(i%g.tilesN, g.stepN, g.n)
	i /= g.tilesN
	i0, i1 = span(i%g.tilesM, g.stepM, g.m)
	return i / g.tilesM, i0, i1, j0, j1
}
