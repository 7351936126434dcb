package product

import "math"

// AMX multiplies matrices in registers, called tiles, of 16 rows of 64 bytes. Its one
// instruction adds the products of 16 rows of 16 pairs of bfloat16 with as many columns
// to 16x16 sums of float32, at sixteen times the rate of vectors.
//
// Products of float32 take it too. A float32 has 24 binary digits; it is split into
// three terms of bfloat16, of 8 digits each, whose sum it is. Of the nine products of two
// numbers' terms, the six that matter to a float32 result are added up. The other three
// are at most as large as the rounding of one float32 product, and mostly far less; on
// average sums are nearer to the exact ones than those of vectors
// (TestSplitIsAsExactAsVectors). Three things differ from vectors:
//
//   - Subnormal terms, and subnormal products of terms, count as zero. Numbers below
//     2^-100 so have fewer digits.
//   - Products of terms are added up in another order, and above 2^127 may overflow
//     earlier.
//   - Inf, NaN and values that overflow cannot be split. They enter as zero; every output
//     they touch is recomputed with vector code ([gemm.recompute]).

// tileConfig is the shapes of AMX's tiles, as its instruction reads them. The fields of
// prefetch follow it for the assembly of split products.
type tileConfig struct {
	palette  uint8
	_        [15]uint8 // first the row to start at: always 0
	rowBytes [16]uint16
	rows     [16]uint8
	prefetch prefetch
}

// prefetch is the lines that a split product fetches into the second cache while it
// multiplies: pairs of cache lines from address at on, row bytes apart, and four bytes
// more after every fourth pair; with each panel, at moves on by panel bytes.
type prefetch struct {
	at               uintptr
	row, four, panel int
}

// set makes the shapes of sums of rows x cols, at most 32 x 32, in tiles 0 to 3, of the
// rows of A in tiles 4 and 5, and of the columns of B in 6 and 7.
func (s *tileConfig) set(rows, cols int) {
	s.palette = 1
	for i := range 2 {
		r, c := min(16, max(0, rows-16*i)), 4*min(16, max(0, cols-16*i))
		for j := range 2 {
			s.rows[2*i+j], s.rowBytes[2*j+i] = uint8(r), uint16(c)
		}
		s.rows[4+i], s.rowBytes[4+i] = uint8(r), 64
		s.rows[6+i], s.rowBytes[6+i] = 16, uint16(c)
	}
	for i := range 8 {
		if s.rows[i] == 0 || s.rowBytes[i] == 0 {
			s.rows[i], s.rowBytes[i] = 0, 0 // not used
		}
	}
}

// multiplyTiles computes rows of a product of tiles: C = A*B, or where sums has room for
// 32x32 numbers, C += A*B. a is a panel; b is so many panels, step words apart; k counts
// tileSteps.
func multiplyTiles(t *tileConfig, f format, c *float32, ldc int, a, b *float32, step, rows, cols, panels, k int, sums *float32) {
	t.set(rows, cols)
	shapes := &t.palette
	high, wide := rows > 16, cols > 16
	switch {
	case f == formatSplit && high && wide:
		split22(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit && high:
		split21(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit && wide:
		split12(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit:
		split11(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case high && wide:
		tiles22(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case high:
		tiles21(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case wide:
		tiles12(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	default:
		tiles11(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	}
}

// packTilesOfRows copies k numbers of at most 32 rows of A to a panel in format f. It
// reports whether it met unsplittable values.
func packTilesOfRows(f format, dst, src *float32, srs, rows, k int) bool {
	if f == formatSplit {
		return splitRows(dst, src, srs, rows, k)
	}
	tilesRows(dst, src, srs, rows, k)
	return false
}

// packTilesOfColumns copies k rows of cols columns of B to panels in format f, step
// words apart. It reports whether it met unsplittable values.
func packTilesOfColumns(f format, dst *float32, step int, src *float32, srs, cols, k int) bool {
	if f == formatSplit {
		return splitColumns(dst, step, src, srs, cols, k)
	}
	tilesColumns(dst, step, src, srs, cols, k)
	return false
}

// multiplyWindows computes rows of a convolution, of the shapes that t holds, for all
// tiles of pixels: the sums of some taps of x by a panel of weights a. x has planes of
// pairs of channels, plane words apart, and three terms, term words apart. With add not
// 0, y is added. pixels is a [convAMX.pixelTable]. sums has room for 32x32 numbers.
func multiplyWindows(t *tileConfig, y *float32, py int, a, x *float32, plane, term int, taps, pixels []int, rows, add int, sums *float32) {
	if rows > 16 {
		windows2(&t.palette, y, py, a, x, plane, term, &pixels[0], &taps[0], rows, len(pixels)/8, len(taps), add, sums)
		return
	}
	windows1(&t.palette, y, py, a, x, plane, term, &pixels[0], &taps[0], rows, len(pixels)/8, len(taps), add, sums)
}

// splitTwoChannels splits two channels, of a whole number of cache lines, into planes
// of pairs, terms term words apart. It reports whether it met unsplittable values.
func splitTwoChannels(dst []float32, term int, first, second []float32) bool {
	_, _ = dst[2*term+len(first)-1], second[len(first)-1]
	return splitChannels(&dst[0], term, &first[0], &second[0], len(first))
}

// multiplyPixels adds to dw the gradient of weights: 32x32 sums over some steps of 32
// pixels for each two of at. x has planes of bfloat16, plane words apart, and three terms,
// term words apart; at and steps are numbers of it. dy is a panel. sums has room for 32x32
// numbers.
func multiplyPixels(t *tileConfig, dw, x *float32, plane, term int, at, steps []int, dy, sums *float32) {
	pixels(&t.palette, dw, dy, x, plane, term, &at[0], &steps[0], len(at)/2, len(steps), sums)
}

// splitRowsOfPixels splits numbers in their order, rows of 32 step words apart and terms
// term words. It reports whether it met unsplittable values.
func splitRowsOfPixels(dst []float32, term, step int, src []float32) bool {
	_ = dst[2*term+(len(src)/tileSteps-1)*step+line-1]
	return splitPixels(&dst[0], term, step, &src[0], len(src))
}

// unsplittable says whether the operands that a workspace holds have unsplittable values.
type unsplittable struct{ rows, cols bool }

// isUnsplittable reports whether x is infinite, or NaN, or so large that its first term
// would round to an infinity.
func isUnsplittable(x float32) bool { return math.Float32bits(x)&^(1<<31) >= 0x7f7f8000 }

// zeroUnsplittable replaces unsplittable values by zeros.
func zeroUnsplittable(x []float32) {
	for i, v := range x {
		if isUnsplittable(v) {
			x[i] = 0
		}
	}
}

// hasUnsplittable reports whether one of n elements of o is unsplittable, from element at
// on and step apart.
func (o *operand) hasUnsplittable(at, step, n int) bool {
	for i := range n {
		if isUnsplittable(o.data[at+i*step]) {
			return true
		}
	}
	return false
}
