package strided

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
)

// word is an element of four bytes that is moved bit for bit.
type word interface{ int32 | float32 }

// Contiguous is len(dst) elements of x as v shows them, from element i on: in place if
// they lie side by side, otherwise in dst.
func (v *View) Contiguous(l isa.ISA, dst, x []float32, i int) []float32 {
	if _, step := v.Inner(); len(v.Dims) == 1 && step == 1 {
		return x[i:][:len(dst)]
	}
	Read(l, v, dst, x, i)
	return dst
}

// Read writes to dst the elements of x as v shows them, from element i on.
func Read[T word](l isa.ISA, v *View, dst, x []T, i int) {
	inner, step := v.Inner()
	rows, apart := v.Rows()
	for len(dst) > 0 {
		row, off := i/inner, i%inner
		at := v.At(row)
		n := min(rows-row%rows, len(dst)/inner) * inner // whole rows
		if off > 0 || n == 0 {
			n = min(inner-off, len(dst))
			copyStrided(dst[:n], x[at+off*step:], step)
		} else {
			readRows(l, dst[:n], x[at:], inner, step, apart)
		}
		dst, i = dst[n:], i+n
	}
}

// readRows copies rows of n elements from x to dst. In x the elements of a row are step
// apart, and a row begins apart elements after the one before.
func readRows[T word](l isa.ISA, dst, x []T, n, step, apart int) {
	rows := len(dst) / n
	switch {
	case apart == 0: // one row, repeated
		copyStrided(dst[:n], x, step)
		for ; n < len(dst); n *= 2 {
			copy(dst[n:], dst[:n])
		}
	case step == 0:
		StretchRows(l, dst, x, n, apart, rows, n)
	case step == 1:
		CopyRows(l, dst, x, n, apart, rows, n)
	default:
		readApart(dst, x, n, step, apart)
	}
}

// readApart is readRows of elements that are not neighbours.
func readApart[T word](dst, x []T, n, step, apart int) {
	for at := 0; len(dst) > 0; dst, at = dst[n:], at+apart {
		p := at
		for i := range dst[:n] {
			dst[i] = x[p]
			p += step
		}
	}
}

// CopyRows copies rows of n elements. Strides are from row to row.
func CopyRows[T word](l isa.ISA, y, x []T, ystride, xstride, rows, n int) {
	if rows == 0 || n == 0 {
		return
	}
	_, _ = y[(rows-1)*ystride+n-1], x[(rows-1)*xstride+n-1]
	if copyVectors(l, bitsOf(y), bitsOf(x), ystride, xstride, rows, n) {
		return
	}
	for r := range rows {
		copy(y[r*ystride:][:n], x[r*xstride:])
	}
}

// StretchRows copies one element of x for each of rows to n elements.
func StretchRows[T word](l isa.ISA, y, x []T, ystride, xstride, rows, n int) {
	if rows == 0 || n == 0 {
		return
	}
	_, _ = y[(rows-1)*ystride+n-1], x[(rows-1)*xstride]
	if stretchVectors(l, bitsOf(y), bitsOf(x), ystride, xstride, rows, n) {
		return
	}
	for r := range rows {
		copyStrided(y[r*ystride:][:n], x[r*xstride:], 0)
	}
}

// Transpose writes the transpose of x, rows x cols elements: cols rows.
func Transpose[T word](l isa.ISA, y []T, ystride int, x []T, xstride, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	_, _ = y[(cols-1)*ystride+rows-1], x[(rows-1)*xstride+cols-1]
	if transposeVectors(l, bitsOf(y), ystride, bitsOf(x), xstride, rows, cols) {
		return
	}
	const width = 16 // columns of a cache line
	for r := 0; r < rows; r += width {
		for c := range cols {
			copyStrided(y[c*ystride+r:][:min(width, rows-r)], x[r*xstride+c:], xstride)
		}
	}
}

// bitsOf is the first element, as vectors take it.
func bitsOf[T word](x []T) *float32 { return (*float32)(unsafe.Pointer(&x[0])) }

// copyStrided reads every stride-th element.
func copyStrided[T word](y, x []T, stride int) {
	switch stride {
	case 1:
		copy(y, x[:len(y)])
	case 0:
		v := x[0]
		for i := range y {
			y[i] = v
		}
	default:
		p := 0
		for i := range y {
			y[i] = x[p]
			p += stride
		}
	}
}
