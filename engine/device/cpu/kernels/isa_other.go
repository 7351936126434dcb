//go:build !amd64

package kernels

var best = Generic

// multiply computes at most mr rows of a product: C = A*B, and with add not 0,
// C += A*B. Strides are in elements; step is from one panel of B to the next.
func (l ISA) multiply(c *float32, ldc int, a *float32, _, _ int, b *float32, _, step, rows, cols, k, add int) {
	multiplyGeneric(c, ldc, a, b, step, rows, cols, k, add)
}

// transpose writes column i of src to row i of dst, lanes elements each, for k
// columns.
func (l ISA) transpose(dst *float32, drs int, src *float32, srs, k int) {
	transposeGeneric(dst, drs, src, srs, k)
}

// gather copies k columns of at most mr rows of A: row i of column j is
// src[i*rs+j*cs] and becomes dst[j*strip+i].
func (l ISA) gather(dst, src *float32, rs, cs, rows, k int) {
	gatherGeneric(dst, src, rs, cs, rows, k)
}

// spread copies k rows of cols columns, srs elements apart, to panels of nr
// columns, step elements apart.
func (l ISA) spread(dst *float32, step int, src *float32, srs, cols, k int) {
	spreadGeneric(dst, step, src, srs, cols, k)
}

// copyRows, stretchRows and turn report that this level cannot.
func (l ISA) copyRows(_, _ *float32, _, _, _, _ int) bool                  { return false }
func (l ISA) stretchRows(_, _ *float32, _, _, _, _ int) bool               { return false }
func (l ISA) turn(_ *float32, _ int, _ *float32, _ int, _ int, _ int) bool { return false }

// maxPool reports that this level has no function for windows of 2x2.
func (l ISA) maxPool(_ *float32, _ *int32, _ *float32, _, _, _ int) bool { return false }

// maxPoolGrad reports that this level has no function for windows of 2x2.
func (l ISA) maxPoolGrad(_ *float32, _ *int32, _ *float32, _, _, _ int) bool { return false }

// maxTap and the other taps are only called on levels with vectors.
func (l ISA) maxTap(_ int, _ []float32, _ []int32, _ int, _ []float32, _, _, _, _ int) {
	panic("BUG: a tap without vectors")
}

func (l ISA) addTap(_ int, _ []float32, _ int, _ []float32, _, _, _ int) {
	panic("BUG: a tap without vectors")
}

func (l ISA) spreadTap(_ int, _ []float32, _ int, _ []float32, _, _, _ int) {
	panic("BUG: a tap without vectors")
}

// round rounds a row of numbers to bfloat16; dst may be src.
func (l ISA) round(dst, src []float32) { roundTo(dst, src) }

// pairsPay is not asked at levels without AVX-512.
const pairsPay = false

func (l ISA) multiplyTiles(t *tileConfig, f format, c *float32, ldc int, a, b *float32, step, rows, cols, panels, k int, sums *float32) {
	panic("BUG: " + l.String() + " does not multiply tiles")
}

func (l ISA) tilesOfRows(f format, dst, src *float32, srs, rows, k int) bool {
	panic("BUG: " + l.String() + " does not make tiles")
}

func (l ISA) tilesOfColumns(f format, dst *float32, step int, src *float32, srs, cols, k int) bool {
	panic("BUG: " + l.String() + " does not make tiles")
}

func (l ISA) turnTiles(data *float32, tiles int) {
	panic("BUG: " + l.String() + " does not make tiles")
}

func (l ISA) windows(t *tileConfig, y *float32, py int, a, x *float32, plane, part int, taps, pixels []int, rows, add int, sums *float32) {
	panic("BUG: " + l.String() + " does not multiply tiles")
}

func (l ISA) pixels(t *tileConfig, dw, x *float32, plane, part int, at, steps []int, dy, sums *float32) {
	panic("BUG: " + l.String() + " does not multiply tiles")
}

func (l ISA) splitPixels(dst []float32, part, step int, src []float32) bool {
	panic("BUG: " + l.String() + " does not make tiles")
}

func (l ISA) splitChannels(dst []float32, part int, first, second []float32) bool {
	panic("BUG: " + l.String() + " does not make tiles")
}

func (l ISA) spreadPairs(dst *float32, step int, src *float32, srs, cols, k int) {
	panic("BUG: " + l.String() + " does not pair")
}

func (l ISA) multiplyPairs(c *float32, ldc int, a *float32, ars, acs int, b *float32, brs, step, rows, cols, k, add int) {
	panic("BUG: " + l.String() + " does not multiply pairs")
}

func (l ISA) halve(dst, src *float32, k int) { panic("BUG: " + l.String() + " does not pair") }

func (l ISA) pair(panel *float32, width, pairs int) { panic("BUG: " + l.String() + " does not pair") }

// padRows copies rows of cols numbers, srs elements apart, to rows of pitch
// numbers: left zeros, the numbers, and zeros again.
func (l ISA) padRows(dst []float32, pitch int, src []float32, srs, cols, rows, left int) {
	padRows(dst, pitch, src, srs, cols, rows, left)
}

// direct is only called on levels with vectors.
func (l ISA) direct(_ int, _, _ *float32, _ *int, _ *float32, _, _, _ int) {
	panic("BUG: a direct convolution without vectors")
}

// depth adds up k taps for rows x cols pixels: y[i][j] = sum over t of
// x[taps[t]+i*xrs+j] * w[t]. Rows of y are yrs elements apart.
func (l ISA) depth(y *float32, yrs int, x *float32, xrs int, taps *int, w *float32, k, rows, cols int) {
	depthGeneric(y, yrs, x, xrs, taps, w, k, rows, cols)
}

// depthGrad adds to k vectors of sums the products of rows x cols pixels of y
// and of x: sums[t][j%lanes] += y[i][j] * x[taps[t]+i*xrs+j].
func (l ISA) depthGrad(sums, y *float32, yrs int, x *float32, xrs int, taps *int, k, rows, cols int) {
	depthGradGeneric(sums, y, yrs, x, xrs, taps, k, rows, cols)
}

// unzip copies every other number: dst[i] = src[2*i].
func (l ISA) unzip(dst, src []float32) { unzip(dst, src) }

// zip writes the numbers of a and b in turns: dst[2*i] = a[i], dst[2*i+1] = b[i].
func (l ISA) zip(dst, a, b []float32) { zip(dst, a, b) }
