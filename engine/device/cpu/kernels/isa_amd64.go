package kernels

import (
	"golang.org/x/sys/cpu"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/asm"
)

var best = detect()

func detect() ISA {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI2:
		return Generic
	case !x.HasAVX512F || !x.HasAVX512VL || !x.HasAVX512BW || !x.HasAVX512DQ:
		return AVX2
	case !x.HasAMXTile || !x.HasAMXBF16 || !allowTiles():
		return AVX512
	}
	return AMX
}

// pairsPay reports whether products of bfloat16 take AVX512_BF16 at AVX512. CPUs
// with AMX multiply pairs at half the rate of float32 (112 against 212 GFLOP/s on
// a core of a Sapphire Rapids). Tests change it.
var pairsPay = cpu.X86.HasAVX512BF16 && !cpu.X86.HasAMXBF16

// round rounds a row of numbers to bfloat16; dst may be src.
func (l ISA) round(dst, src []float32) {
	if l >= AVX512 && len(src) > 0 {
		asm.Round512(&dst[:len(src)][0], &src[0], len(src))
		return
	}
	roundTo(dst, src)
}

// multiplyPairs is multiply for pairs of bfloat16.
func (l ISA) multiplyPairs(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int) {
	asm.GemmBF16(c, ldc, a, ars, acs, b, brs, step, rows, cols, k, add)
}

// multiplyTiles computes rows of a product with AMX, of the shapes that t holds:
// C = A*B, or where sums has room for 32x32 numbers, C += A*B. a is a panel and b
// some, step places apart; k counts tileSteps.
func (l ISA) multiplyTiles(t *tileConfig, f format, c *float32, ldc int, a, b *float32, step, rows, cols, panels, k int, sums *float32) {
	t.set(rows, cols)
	shapes := &t.palette
	high, wide := rows > 16, cols > 16
	switch { // calls through a table would make everything escape to the heap
	case f == formatSplit && high && wide:
		asm.Split22(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit && high:
		asm.Split21(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit && wide:
		asm.Split12(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case f == formatSplit:
		asm.Split11(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case high && wide:
		asm.Tiles22(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case high:
		asm.Tiles21(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	case wide:
		asm.Tiles12(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	default:
		asm.Tiles11(shapes, c, ldc, a, b, step, rows, cols, panels, k, sums)
	}
}

// tilesOfRows copies k numbers of at most 32 rows of A to a panel in form f. It
// reports whether there were any that cannot be split.
func (l ISA) tilesOfRows(f format, dst, src *float32, srs, rows, k int) bool {
	if f == formatSplit {
		return asm.SplitRows(dst, src, srs, rows, k) != 0
	}
	asm.TilesRows(dst, src, srs, rows, k)
	return false
}

// tilesOfColumns copies k rows of cols columns of B to panels in form f, step
// places apart. It reports whether there were any that cannot be split.
func (l ISA) tilesOfColumns(f format, dst *float32, step int, src *float32, srs, cols, k int) bool {
	if f == formatSplit {
		return asm.SplitColumns(dst, step, src, srs, cols, k) != 0
	}
	asm.TilesColumns(dst, step, src, srs, cols, k)
	return false
}

// windows computes rows of a convolution with AMX, of the shapes that t holds, for
// all pixels: the sums of some taps of x, a plane of pairs of channels being plane
// places from the next and a part part, by a panel of weights a. With add not 0,
// that plus y. sums has room for 32x32 numbers.
func (l ISA) windows(t *tileConfig, y *float32, py int, a, x *float32, plane, part int, taps, pixels []int, rows, add int, sums *float32) {
	if rows > 16 {
		asm.Windows2(&t.palette, y, py, a, x, plane, part, &pixels[0], &taps[0], rows, len(pixels)/8, len(taps), add, sums)
		return
	}
	asm.Windows1(&t.palette, y, py, a, x, plane, part, &pixels[0], &taps[0], rows, len(pixels)/8, len(taps), add, sums)
}

// splitChannels splits two channels, of a whole number of cache lines, into planes
// of pairs, part places apart. It reports whether there were any that cannot be
// split.
func (l ISA) splitChannels(dst []float32, part int, first, second []float32) bool {
	_, _ = dst[2*part+len(first)-1], second[len(first)-1]
	return asm.SplitChannels(&dst[0], part, &first[0], &second[0], len(first)) != 0
}

// pixels adds to dw the gradient of weights with AMX: 32x32 sums over some steps of
// 32 pixels for each two of at. x has planes of bfloat16, plane places apart, and
// parts part places apart; at and steps are numbers of it. dy is a panel. sums has
// room for 32x32 numbers.
func (l ISA) pixels(t *tileConfig, dw, x *float32, plane, part int, at, steps []int, dy, sums *float32) {
	asm.Pixels(&t.palette, dw, dy, x, plane, part, &at[0], &steps[0], len(at)/2, len(steps), sums)
}

// splitPixels splits numbers in their order, rows of 32 step places apart and parts
// part places. It reports whether there were any that cannot be split.
func (l ISA) splitPixels(dst []float32, part, step int, src []float32) bool {
	_ = dst[2*part+(len(src)/tileSteps-1)*step+line-1]
	return asm.SplitPixels(&dst[0], part, step, &src[0], len(src)) != 0
}

// turnTiles makes a panel of A from one of B, and the other way round.
func (l ISA) turnTiles(data *float32, tiles int) { asm.TurnTiles512(data, tiles) }

// spreadPairs rounds k rows of cols columns to bfloat16 and copies them to
// panels of 32 columns, step places apart, two rows as one row of pairs.
func (l ISA) spreadPairs(dst *float32, step int, src *float32, srs, cols, k int) {
	asm.SpreadPairs512(dst, step, src, srs, cols, k)
}

// halve rounds a row of k numbers to bfloat16, two in the place of one, and
// fills dst up with zeros to a whole number of 8 places.
func (l ISA) halve(dst, src *float32, k int) { asm.Halve512(dst, src, k) }

// pair rounds a panel of so many pairs of rows in place: a pair becomes a row.
func (l ISA) pair(panel *float32, width, pairs int) { asm.Pair512(panel, width, pairs) }

// multiply computes at most mr rows of a product: C = A*B, and with add not 0,
// C += A*B. Strides are in elements; step is from one panel of B to the next.
func (l ISA) multiply(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int) {
	switch l {
	case AMX, AVX512:
		asm.Gemm512(c, ldc, a, ars, acs, b, brs, step, rows, cols, k, add)
	case AVX2:
		asm.Gemm2(c, ldc, a, ars, acs, b, brs, step, rows, cols, k, add)
	default:
		multiplyGeneric(c, ldc, a, b, step, rows, cols, k, add)
	}
}

// transpose writes column i of src to row i of dst, lanes elements each, for k
// columns. It may write dst on to a whole number of depthStep rows.
func (l ISA) transpose(dst *float32, drs int, src *float32, srs, k int) {
	switch l {
	case AMX, AVX512:
		asm.Transpose512(dst, drs, src, srs, k)
	case AVX2:
		asm.Transpose2(dst, drs, src, srs, k)
	default:
		transposeGeneric(dst, drs, src, srs, k)
	}
}

// gather copies k columns of at most mr rows of A: row i of column j is
// src[i*rs+j*cs] and becomes dst[j*strip+i], strip being the level's. Vectors
// only gather rows that are together: rs is 1.
func (l ISA) gather(dst, src *float32, rs, cs, rows, k int) {
	if l == Generic {
		gatherGeneric(dst, src, rs, cs, rows, k)
		return
	}
	asm.Gather2(dst, src, cs, rows, k)
}

// spread copies k rows of cols columns, srs elements apart, to panels of nr
// columns, step elements apart.
func (l ISA) spread(dst *float32, step int, src *float32, srs, cols, k int) {
	switch l {
	case AMX, AVX512:
		asm.Spread512(dst, step, src, srs, cols, k)
	case AVX2:
		asm.Spread2(dst, step, src, srs, cols, k)
	default:
		spreadGeneric(dst, step, src, srs, cols, k)
	}
}

// copyRows copies rows of n elements; stretchRows one element for each of rows to
// n. Strides are from row to row. They report whether this level can.
func (l ISA) copyRows(y, x *float32, ystride, xstride, rows, n int) bool {
	switch l {
	case AMX, AVX512:
		asm.CopyRows512(y, x, ystride, xstride, rows, n)
	case AVX2:
		asm.CopyRows2(y, x, ystride, xstride, rows, n)
	default:
		return false
	}
	return true
}

func (l ISA) stretchRows(y, x *float32, ystride, xstride, rows, n int) bool {
	switch l {
	case AMX, AVX512:
		asm.StretchRows512(y, x, ystride, xstride, rows, n)
	case AVX2:
		asm.StretchRows2(y, x, ystride, xstride, rows, n)
	default:
		return false
	}
	return true
}

// turn writes the transpose of x, rows x cols elements. It reports whether this
// level can.
func (l ISA) turn(y *float32, ystride int, x *float32, xstride, rows, cols int) bool {
	switch l {
	case AMX, AVX512:
		asm.Turn512(y, ystride, x, xstride, rows, cols)
	case AVX2:
		asm.Turn2(y, ystride, x, xstride, rows, cols)
	default:
		return false
	}
	return true
}

// maxPool writes the largest elements of rows x cols windows of 2x2, side by
// side in a plane x of w columns, and where in x they are. It reports whether
// this level can.
func (l ISA) maxPool(y *float32, idx *int32, x *float32, w, rows, cols int) bool {
	switch l {
	case AMX, AVX512:
		asm.MaxPool512(y, idx, x, w, rows, cols)
	case AVX2:
		asm.MaxPool2(y, idx, x, w, rows, cols)
	default:
		return false
	}
	return true
}

// maxPoolGrad writes rows x cols windows of 2x2 of a plane dx of w columns: dy
// where idx says, else zeros. It reports whether this level can and every idx
// was in its window; what it wrote is no use otherwise.
func (l ISA) maxPoolGrad(dx *float32, idx *int32, dy *float32, w, rows, cols int) bool {
	switch l {
	case AMX, AVX512:
		return asm.MaxPoolGrad512(dx, idx, dy, w, rows, cols) == 0
	case AVX2:
		return asm.MaxPoolGrad2(dx, idx, dy, w, rows, cols) == 0
	default:
		return false
	}
}

// maxTap takes one place of rows x cols windows, step elements of x apart, into
// account: y and idx, rows of ystride elements, are the largest so far. at is
// where in its plane x begins. No level without vectors has it, nor the other taps.
func (l ISA) maxTap(step int, y []float32, idx []int32, ystride int, x []float32, xstride, rows, cols, at int) {
	_, _, _ = y[(rows-1)*ystride+cols-1], idx[(rows-1)*ystride+cols-1], x[(rows-1)*xstride+(cols-1)*step]
	switch {
	case l >= AVX512 && step > 2:
		asm.MaxTapApart512(step, &y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	case step > 2:
		asm.MaxTapApart2(step, &y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	case l >= AVX512 && step == 1:
		asm.MaxTapEach512(&y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	case l >= AVX512:
		asm.MaxTapOther512(&y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	case step == 1:
		asm.MaxTapEach2(&y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	default:
		asm.MaxTapOther2(&y[0], &idx[0], ystride, &x[0], xstride, rows, cols, at)
	}
}

// addTap adds every step-th element of rows of x to cols of y.
func (l ISA) addTap(step int, y []float32, ystride int, x []float32, xstride, rows, cols int) {
	_, _ = y[(rows-1)*ystride+cols-1], x[(rows-1)*xstride+(cols-1)*step]
	switch {
	case l >= AVX512 && step > 2:
		asm.AddTapApart512(step, &y[0], ystride, &x[0], xstride, rows, cols)
	case step > 2:
		asm.AddTapApart2(step, &y[0], ystride, &x[0], xstride, rows, cols)
	case l >= AVX512 && step == 1:
		asm.AddTapEach512(&y[0], ystride, &x[0], xstride, rows, cols)
	case l >= AVX512:
		asm.AddTapOther512(&y[0], ystride, &x[0], xstride, rows, cols)
	case step == 1:
		asm.AddTapEach2(&y[0], ystride, &x[0], xstride, rows, cols)
	default:
		asm.AddTapOther2(&y[0], ystride, &x[0], xstride, rows, cols)
	}
}

// spreadTap adds cols elements of rows of x to every element of y, or to every
// other one.
func (l ISA) spreadTap(step int, y []float32, ystride int, x []float32, xstride, rows, cols int) {
	_, _ = y[(rows-1)*ystride+(cols-1)*step], x[(rows-1)*xstride+cols-1]
	switch {
	case step == 1:
		l.addTap(1, y, ystride, x, xstride, rows, cols)
	case l >= AVX512:
		asm.SpreadTap512(&y[0], ystride, &x[0], xstride, rows, cols)
	default:
		asm.SpreadTap2(&y[0], ystride, &x[0], xstride, rows, cols)
	}
}

// padRows copies rows of cols numbers, srs elements apart, to rows of pitch
// numbers: left zeros, the numbers, and zeros again.
func (l ISA) padRows(dst []float32, pitch int, src []float32, srs, cols, rows, left int) {
	if l >= AVX512 && cols > 0 && rows > 0 {
		asm.PadRows512(&dst[:rows*pitch][0], pitch, &src[:(rows-1)*srs+cols][0], srs, cols, rows, left)
		return
	}
	padRows(dst, pitch, src, srs, cols, rows, left)
}

// direct adds up k taps for a few pixels of a row, at most those of
// [directPixels]: y[p][c] = sum over t of x[taps[t]+p] * w[t][c] for wide
// channels c, one vector or two, and with add not 0, that plus y. No level
// without vectors has it.
func (l ISA) direct(wide int, y, x *float32, taps *int, w *float32, pixels, k, add int) {
	switch narrow := wide == isaSizes[l].lanes; {
	case l >= AVX512 && narrow:
		asm.ConvNarrow512(y, x, taps, w, pixels, k, add)
	case l >= AVX512:
		asm.Conv512(y, x, taps, w, pixels, k, add)
	case l == AVX2 && narrow:
		asm.ConvNarrow2(y, x, taps, w, pixels, k, add)
	case l == AVX2:
		asm.Conv2(y, x, taps, w, pixels, k, add)
	default:
		panic("BUG: a direct convolution without vectors")
	}
}

// depth adds up k taps for rows x cols pixels: y[i][j] = sum over t of
// x[taps[t]+i*xrs+j] * w[t]. Rows of y are yrs elements apart. k is at least 1.
func (l ISA) depth(y *float32, yrs int, x *float32, xrs int, taps *int, w *float32, k, rows, cols int) {
	switch l {
	case AMX, AVX512:
		asm.Depth512(y, yrs, x, xrs, taps, w, k, rows, cols)
	case AVX2:
		asm.Depth2(y, yrs, x, xrs, taps, w, k, rows, cols)
	default:
		depthGeneric(y, yrs, x, xrs, taps, w, k, rows, cols)
	}
}

// depthGrad adds to k vectors of sums the products of rows x cols pixels of y
// and of x: sums[t][j%lanes] += y[i][j] * x[taps[t]+i*xrs+j]. Rows of y are yrs
// elements apart. k is at least 1.
func (l ISA) depthGrad(sums, y *float32, yrs int, x *float32, xrs int, taps *int, k, rows, cols int) {
	switch l {
	case AMX, AVX512:
		asm.DepthGrad512(sums, y, yrs, x, xrs, taps, k, rows, cols)
	case AVX2:
		asm.DepthGrad2(sums, y, yrs, x, xrs, taps, k, rows, cols)
	default:
		depthGradGeneric(sums, y, yrs, x, xrs, taps, k, rows, cols)
	}
}

// unzip copies every other number: dst[i] = src[2*i].
func (l ISA) unzip(dst, src []float32) {
	n := len(dst)
	_ = src[2*n-2]
	if l >= AVX512 {
		asm.Unzip512(&dst[0], &src[0], n)
		return
	}
	whole := 0
	if l == AVX2 && n > 8 {
		whole = (n - 1) / 8 * 8 // it reads one more
		asm.Unzip2(&dst[0], &src[0], whole)
	}
	unzip(dst[whole:], src[2*whole:])
}

// zip writes the numbers of a and b in turns: dst[2*i] = a[i], dst[2*i+1] = b[i].
func (l ISA) zip(dst, a, b []float32) {
	n := len(dst)
	_, _ = a[:(n+1)/2], b[:n/2]
	if l >= AVX512 && n > 1 {
		asm.Zip512(&dst[0], &a[0], &b[0], n)
		return
	}
	whole := 0
	if l == AVX2 && n >= 16 {
		whole = n / 16 * 16
		asm.Zip2(&dst[0], &a[0], &b[0], whole)
	}
	zip(dst[whole:], a[whole/2:], b[whole/2:])
}
