package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"math"
)

const (
	minChunkWork = 1 << 18 // multiply-adds that are worth handing to a thread
	maxCellRows  = 512     // most rows of a cell
)

// grid is how the m x n elements of each of count products are cut into tiles,
// and how many tiles in a row make a chunk.
type grid struct {
	m, n, count        int
	cellRows, cellCols int
	cellsM, cellsN     int
	perChunk           int
}

// newGrid prefers large tiles, which share packed panels. Columns are cut
// first, because no two of their tiles read the same part of B, unless
// rowsFirst says that A is what is read at a cost; columns not below a panel,
// and rows not below leastM.
func newGrid(s *sizes, count, m, n, k, leastM int, rowsFirst bool) grid {
	g := grid{m: m, n: n, count: count}
	g.cut(s, maxCellRows, s.cols)
	cellWork := func() int { return g.cellRows * g.cellCols * max(1, k) / s.rate }
	for g.cells() < work.EnoughChunks && cellWork() >= 2*minChunkWork {
		switch rows, columns := g.cellRows >= 2*leastM, g.cellCols > s.nr; {
		case columns && !(rows && rowsFirst):
			g.cut(s, g.cellRows, g.cellCols/2)
		case rows:
			g.cut(s, g.cellRows/2, g.cellCols)
		default:
			return g
		}
	}
	g.perChunk = max(1, min(minChunkWork/max(1, cellWork()), g.cells()/work.EnoughChunks))
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
const maxCuts = 32

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
	for i := range min(maxCuts, work.CeilDiv(g.m, s.mr)) {
		for j := range min(maxCuts, work.CeilDiv(g.n, s.nr)) {
			try := g
			try.cut(s, work.CeilDiv(g.m, work.CeilDiv(g.m, maxCellRows)+i), work.CeilDiv(g.n, work.CeilDiv(g.n, s.cols)+j))
			m, n := try.cellRows, try.cellCols
			tile := k*(m*n/s.rate+m*a+n*b) + costChunk
			// The threads' last tiles seldom end at once.
			if cost := (float64(work.CeilDiv(try.cells(), threads)) + lateness) * float64(tile); cost < least {
				best, least = try, cost
			}
		}
	}
	best.perChunk = max(1, min(minChunkWork/max(1, best.cellRows*best.cellCols*k/s.rate), best.cells()/(4*threads)))
	return best
}

// cut divides rows and columns evenly into steps of at most so many, rounded
// up to whole tiles of the inner kernel.
func (g *grid) cut(s *sizes, stepM, stepN int) {
	even := func(n, step, unit int) (int, int) {
		step = max(unit, step)
		step = work.CeilDiv(work.CeilDiv(n, max(1, work.CeilDiv(n, step))), unit) * unit
		step = max(unit, step)
		return step, work.CeilDiv(n, step)
	}
	g.cellRows, g.cellsM = even(g.m, stepM, s.mr)
	g.cellCols, g.cellsN = even(g.n, stepN, s.nr)
	g.perChunk = 1
}

// tiles is the number of tiles of all products, and chunks that of chunks.
func (g *grid) cells() int  { return g.count * g.cellsM * g.cellsN }
func (g *grid) chunks() int { return work.CeilDiv(g.cells(), g.perChunk) }

// of are the tiles of chunk i.
func (g *grid) cellsOf(i int) (first, end int) { return work.Interval(i, g.perChunk, g.cells()) }

// at is tile i: which product, rows and columns.
func (g *grid) cell(i int) (p, i0, i1, j0, j1 int) {
	j0, j1 = work.Interval(i%g.cellsN, g.cellCols, g.n)
	i /= g.cellsN
	i0, i1 = work.Interval(i%g.cellsM, g.cellRows, g.m)
	return i / g.cellsM, i0, i1, j0, j1
}
