package product

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// Without vectors, an inner kernel keeps 2x4 sums, as many as the Go compiler holds in
// registers without spilling. Its operands are always packed, so that the inner loop
// reads both in order and checks no bounds.
const (
	genericRows = 2
	genericCols = 4
)

// gemmGeneric computes two rows, of which the second may be missing, from a panel of A
// and panels of four columns of B, step elements apart.
func gemmGeneric(c *float32, ldc int, a *float32, _, _ int, b *float32, _, step, rows, cols, k, add int) {
	x := unsafe.Slice((*[genericRows]float32)(unsafe.Pointer(a)), k)
	out := unsafe.Slice(c, (rows-1)*ldc+cols)
	panels := unsafe.Slice(b, (work.CeilDiv(cols, genericCols)-1)*step+k*genericCols)
	var sums [genericRows * genericCols]float32
	for j := 0; j < cols; j += genericCols {
		y := panels[j/genericCols*step:]
		micro(x, unsafe.Slice((*[genericCols]float32)(unsafe.Pointer(&y[0])), k), &sums)
		for r := range rows {
			row := out[r*ldc+j:][:min(genericCols, cols-j)]
			for l := range row {
				v := sums[r*genericCols+l]
				if add != 0 {
					v = row[l] + v
				}
				row[l] = v
			}
		}
	}
}

// micro is the inner loop: four steps of k are written out, since the loop's
// own bookkeeping would cost a third of the time.
func micro(a [][genericRows]float32, b [][genericCols]float32, sums *[genericRows * genericCols]float32) {
	var c00, c01, c02, c03, c10, c11, c12, c13 float32
	for len(a) >= 4 && len(b) >= 4 {
		ak, bk := (*[4][genericRows]float32)(a), (*[4][genericCols]float32)(b)
		b0, b1, b2, b3 := bk[0][0], bk[0][1], bk[0][2], bk[0][3]
		x := ak[0][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[0][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[1][0], bk[1][1], bk[1][2], bk[1][3]
		x = ak[1][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[1][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[2][0], bk[2][1], bk[2][2], bk[2][3]
		x = ak[2][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[2][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		b0, b1, b2, b3 = bk[3][0], bk[3][1], bk[3][2], bk[3][3]
		x = ak[3][0]
		c00 += x * b0
		c01 += x * b1
		c02 += x * b2
		c03 += x * b3
		x = ak[3][1]
		c10 += x * b0
		c11 += x * b1
		c12 += x * b2
		c13 += x * b3
		a, b = a[4:], b[4:]
	}
	*sums = [genericRows * genericCols]float32{c00, c01, c02, c03, c10, c11, c12, c13}
	microRest(a, b, sums)
}

// microRest goes on with the steps that are left.
func microRest(a [][genericRows]float32, b [][genericCols]float32, sums *[genericRows * genericCols]float32) {
	for k := range a {
		for r, x := range a[k] {
			for j, y := range b[k] {
				sums[r*genericCols+j] += x * y
			}
		}
	}
}

// transposeGeneric writes four columns of k elements as rows.
func transposeGeneric(dst *float32, drs int, src *float32, srs, k int) {
	d, s := unsafe.Slice(dst, (k-1)*drs+genericCols), unsafe.Slice(src, (genericCols-1)*srs+k)
	w, x, y, z := s[:k], s[srs:][:k], s[2*srs:][:k], s[3*srs:][:k]
	for i := range w {
		*(*[genericCols]float32)(d[i*drs:]) = [genericCols]float32{w[i], x[i], y[i], z[i]}
	}
}

// gatherGeneric copies two rows of k columns. The second row may be missing; its sums
// are not used then.
func gatherGeneric(dst, src *float32, rs, cs, rows, k int) {
	d := unsafe.Slice((*[genericRows]float32)(unsafe.Pointer(dst)), k)
	s := unsafe.Slice(src, (rows-1)*rs+(k-1)*cs+1)
	second := s[(rows-1)*rs:]
	if cs == 1 {
		s, second = s[:k], second[:k]
		for i := range d {
			d[i] = [genericRows]float32{s[i], second[i]}
		}
		return
	}
	for i := range d {
		d[i] = [genericRows]float32{s[i*cs], second[i*cs]}
	}
}

// spreadGeneric copies rows to panels of four columns.
func spreadGeneric(dst *float32, step int, src *float32, srs, cols, k int) {
	d, s := unsafe.Slice(dst, (work.CeilDiv(cols, genericCols)-1)*step+k*genericCols), unsafe.Slice(src, (k-1)*srs+cols)
	for i := range k {
		row, at := s[i*srs:][:cols], i*genericCols
		for ; len(row) >= genericCols; at += step {
			*(*[genericCols]float32)(d[at:]) = [genericCols]float32(row)
			row = row[genericCols:]
		}
		if len(row) > 0 {
			copy(d[at:], row)
		}
	}
}

// depthGeneric goes through a plane tap by tap, a row at a time.
func depthGeneric(y *float32, yrs int, x *float32, xrs int, taps *int, w *float32, k, rows, cols int) {
	out, at, weights := unsafe.Slice(y, (rows-1)*yrs+cols), unsafe.Slice(taps, k), unsafe.Slice(w, k)
	for i := range rows {
		row := out[i*yrs:][:cols]
		clear(row)
		for t, v := range weights {
			for j, e := range pixelsAt(x, at[t]+i*xrs, cols) {
				row[j] += v * e
			}
		}
	}
}

// depthGradGeneric goes through rows tap by tap.
func depthGradGeneric(sums, y *float32, yrs int, x *float32, xrs int, taps *int, k, rows, cols int) {
	in, at := unsafe.Slice(y, (rows-1)*yrs+cols), unsafe.Slice(taps, k)
	all := unsafe.Slice((*[genericCols]float32)(unsafe.Pointer(sums)), k)
	for i := range rows {
		row := in[i*yrs:][:cols]
		for t := range all {
			for j, e := range pixelsAt(x, at[t]+i*xrs, cols) {
				all[t][j%genericCols] += row[j] * e
			}
		}
	}
}

// pixelsAt is n elements of x, from element at on.
func pixelsAt(x *float32, at, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(x), at*4)), n)
}
