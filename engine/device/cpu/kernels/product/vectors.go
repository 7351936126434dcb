package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/ops"
)

// The functions here take slices, or choose between functions of assembly. Those of
// generic.go are plain Go.

// round rounds a row of numbers to bfloat16; dst may be src.
func round(set isa.ISA, dst, src []float32) {
	if set >= isa.AVX512 && len(src) > 0 {
		roundVectors(&dst[:len(src)][0], &src[0], len(src))
		return
	}
	for i, v := range src {
		dst[i] = ops.RoundBF16(v)
	}
}

// padRows copies rows of cols numbers, srs elements apart, to rows of pitch
// numbers: left zeros, the numbers, and zeros again.
func padRows(set isa.ISA, dst []float32, pitch int, src []float32, srs, cols, rows, left int) {
	if set >= isa.AVX512 && cols > 0 && rows > 0 {
		padVectors(&dst[:rows*pitch][0], pitch, &src[:(rows-1)*srs+cols][0], srs, cols, rows, left)
		return
	}
	for i := range rows {
		row := dst[i*pitch:][:pitch]
		clear(row[:left])
		copy(row[left:], src[i*srs:][:cols])
		clear(row[left+cols:])
	}
}

// unzip copies every other number: dst[i] = src[2*i].
func unzip(set isa.ISA, dst, src []float32) {
	n, whole := len(dst), 0
	_ = src[2*n-2]
	switch {
	case set >= isa.AVX512:
		whole = n
	case set == isa.AVX2 && n > 8:
		whole = (n - 1) / 8 * 8 // it reads one more
	}
	if whole > 0 {
		unzipVectors(set, &dst[0], &src[0], whole)
	}
	for i := whole; i < n; i++ {
		dst[i] = src[2*i]
	}
}

// zip writes the numbers of a and b in turns: dst[2*i] = a[i], dst[2*i+1] = b[i].
func zip(set isa.ISA, dst, a, b []float32) {
	n, whole := len(dst), 0
	_, _ = a[:(n+1)/2], b[:n/2]
	switch {
	case set >= isa.AVX512 && n > 1:
		whole = n
	case set == isa.AVX2 && n >= 16:
		whole = n / 16 * 16
	}
	if whole > 0 {
		zipVectors(set, &dst[0], &a[0], &b[0], whole)
	}
	for i := whole; i < n; i++ {
		if i%2 == 0 {
			dst[i] = a[i/2]
		} else {
			dst[i] = b[i/2]
		}
	}
}
