package product

import (
	"math"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

const (
	minChunkWork = 1 << 18 // multiply-adds that are worth handing to a thread
	maxCellRows  = 512     // most rows of a cell
)

// grid cuts the m x n elements of each of count products into cells, of which perChunk
// in a row make a chunk.
type grid struct {
	m, n, count        int
	cellRows, cellCols int
	cellsM, cellsN     int
	perChunk           int
}

// newGrid prefers large cells, which share packed panels, until there are enough
// chunks. It cuts columns first, because no two of their cells read the same columns of
// B; with rowsFirst, where A is the operand that is costly to read, it cuts rows first.
// A cell has at least a panel of columns, and minRows rows.
func newGrid(s *sizes, count, m, n, k, minRows int, rowsFirst bool) grid {
	g := grid{m: m, n: n, count: count}
	g.cut(s, maxCellRows, s.cols)
	cellWork := func() int { return g.cellRows * g.cellCols * max(1, k) / s.rate }
	for g.cells() < work.EnoughChunks && cellWork() >= 2*minChunkWork {
		switch rows, columns := g.cellRows >= 2*minRows, g.cellCols > s.nr; {
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

// A product's costs in units of one multiply-add.
const (
	costChunk = 80_000 // of handing out a chunk
	costRead  = 4      // of reading an element of an operand again in place
	costPack  = 18     // of packing it
	lateness  = 0.15   // of a cell: threads' last cells seldom end at once
)

// maxCuts is the most ways to cut rows, and columns, that are compared.
const maxCuts = 32

// forThreads is g cut in the way that should take so many threads the least time, where
// a product of k steps packs A, or B, or does not. Large cells are packed once and read
// from less often; but threads should end together.
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
			cellCost := k*(m*n/s.rate+m*a+n*b) + costChunk
			if cost := (float64(work.CeilDiv(try.cells(), threads)) + lateness) * float64(cellCost); cost < least {
				best, least = try, cost
			}
		}
	}
	best.perChunk = max(1, min(minChunkWork/max(1, best.cellRows*best.cellCols*k/s.rate), best.cells()/(4*threads)))
	return best
}

// cut divides rows and columns evenly into cells of at most so many, rounded up to
// whole steps of the inner kernel.
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

// cells is the number of cells of all products, and chunks that of chunks.
func (g *grid) cells() int  { return g.count * g.cellsM * g.cellsN }
func (g *grid) chunks() int { return work.CeilDiv(g.cells(), g.perChunk) }

// cellsOf is the cells of chunk i.
func (g *grid) cellsOf(i int) (first, end int) { return work.Interval(i, g.perChunk, g.cells()) }

// cell is the product, rows and columns of cell i.
func (g *grid) cell(i int) (p, i0, i1, j0, j1 int) {
	j0, j1 = work.Interval(i%g.cellsN, g.cellCols, g.n)
	i /= g.cellsN
	i0, i1 = work.Interval(i%g.cellsM, g.cellRows, g.m)
	return i / g.cellsM, i0, i1, j0, j1
}
