package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// The constants of every product. K, the steps that a sum has, is cut into blocks; a
// panel of A and a panel of B for one block fit the first and the second cache.
const (
	blockK    = 384 // most steps of k in a block
	depthStep = 16  // blocks and panels are whole numbers of this many steps

	// What a workspace has room for, with any instruction set.
	maxRows  = 64  // rows of packed A
	maxCols  = 512 // columns of packed B
	maxLanes = 16  // rows on their way to being transposed

	// line is the elements of a cache line.
	line = 16
)

// format is how the factors of a product are packed and multiplied. Products of bfloat16
// round their factors while they are packed. The product of two bfloat16 is exact in
// float32, so formats of bfloat16 differ only in how sums are rounded, and in that
// hardware takes subnormal factors for zeros.
type format uint8

const (
	formatFloat   format = iota // float32, as they are
	formatRounded               // rounded to bfloat16, multiplied as float32
	formatPairs                 // two bfloat16, of two steps of k, in the word of one float32: AVX512_BF16
	formatTiles                 // bfloat16 in tiles: AMX
	formatSplit                 // float32, split into three terms of bfloat16 each, in tiles: AMX
)

// formatOf is the format of a product of m x k and k x n numbers.
func formatOf(on work.Target, bf16 bool, m, n, k int) format {
	switch {
	case bf16 && on.ISA == isa.AMX:
		return formatTiles
	case bf16 && on.ISA == isa.AVX512 && on.Pairs:
		return formatPairs
	case bf16:
		return formatRounded
	case on.ISA == isa.AMX && splitPays(m, n, k):
		return formatSplit
	}
	return formatFloat
}

// splitPays reports whether a product of m x k and k x n numbers takes less time split,
// packing included: to pack an element of A takes the time of 30 multiply-adds that
// splitting saves, and of B that of 50.
func splitPays(m, n, k int) bool { return k >= 64 && m*n >= 30*m+50*n }

// inTiles reports whether operands are packed as tiles.
func (f format) inTiles() bool { return f == formatTiles || f == formatSplit }

// panelWords is the words of a panel of tiles of A or B, for k steps.
func (f format) panelWords(k int) int {
	n := 2 * tileWords * work.CeilDiv(k, tileSteps)
	if f == formatSplit {
		n *= 3
	}
	return n
}

// A tile takes tileSteps steps of k of 16 rows or columns, as bfloat16, which is
// tileWords words of memory.
const (
	tileSteps = 32
	tileWords = 16 * 16
)

// sizes are the measures of an inner kernel.
type sizes struct {
	mr, nr int  // most rows and columns of C that it computes at once
	groups int  // groups of mr rows whose panels of A are packed together
	rate   int  // multiply-adds in the time of one of float32
	strip  int  // rows of a panel of A
	lanes  int  // columns that transpose moves at once
	packs  bool // A and B must be packed

	// From these on it pays to pack operands that could be read in place, or to fetch them ahead: far is the elements
	// from column to column of A, reach those that all of B spans. Pages and the sets of
	// the caches run out, and the hardware does not foresee the row after a short one
	// of a panel.
	far, reach int

	block     int // most steps of k in a block
	depthStep int // blocks are whole numbers of this many
	cols      int // most columns of B that are packed together
}

var isaSizes = [...]sizes{
	isa.Generic: {
		mr: genericRows, nr: genericCols, groups: 8, rate: 1, strip: genericRows, lanes: genericCols, packs: true,
		block: blockK, depthStep: depthStep, cols: maxCols,
	},
	isa.AVX2: {
		mr: 6, nr: 16, groups: 8, rate: 1, strip: 8, lanes: 8,
		far: 256, reach: 1 << 15, block: blockK, depthStep: depthStep, cols: maxCols,
	},
	isa.AVX512: vectorSizes,
	isa.AMX:    vectorSizes, // of products that do not go in tiles
}

var vectorSizes = sizes{
	mr: 8, nr: 32, groups: 8, rate: 1, strip: 8, lanes: 16,
	far: 256, reach: 1 << 15, block: blockK, depthStep: depthStep, cols: maxCols,
}

// pairSizes are those of pairs, which the same registers hold.
var pairSizes = func() sizes {
	s := vectorSizes
	s.rate = 2
	return s
}()

// tileSizes and splitSizes are the measures of the inner kernels for AMX. A panel of A
// for one block of K takes half of the first cache.
var (
	tileSizes  = sizes{mr: 32, nr: 32, groups: 1, rate: 8, block: 384, depthStep: tileSteps, cols: maxCols}
	splitSizes = sizes{mr: 32, nr: 32, groups: 1, rate: 2, block: 128, depthStep: tileSteps, cols: maxCols}
)

func sizesOf(set isa.ISA, f format) *sizes {
	switch f {
	case formatPairs:
		return &pairSizes
	case formatTiles:
		return &tileSizes
	case formatSplit:
		return &splitSizes
	}
	return &isaSizes[set]
}

// depth is the steps of k of each block of a sum of k steps, the last one perhaps fewer:
// as few blocks as possible, of about the same size.
func (s *sizes) depth(k int) int {
	blocks := max(1, work.CeilDiv(k, s.block))
	return max(1, work.CeilDiv(work.CeilDiv(k, blocks), s.depthStep)) * s.depthStep
}
