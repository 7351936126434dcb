package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// im2col reads an image as the matrix of its convolution windows, without writing that
// matrix down. Its row is (c, kh, kw), an element of a window; its column is (oh, ow), an
// output. The element is the pixel at (oh*mul+kh*dir+off, ow*mul+kw*dir+off), or zero
// where that is outside.
//
// A convolution reads x with mul = stride, dir = 1, off = -pad. Its gradient for x,
// without a stride, reads dy with mul = 1, dir = -1, off = pad. With dilation d, dir is d
// and -d. Zeros are multiplied like pixels, so an infinite weight gives NaN at a padded edge.
type im2col struct {
	isa           isa.ISA
	src           []float32 // one group's channels of one sample, [C,H,W]
	h, w          int       // pixels of src
	kh, kw        int       // elements of a window
	oh, ow        int       // outputs
	mul, dir, off int
	transposed    bool // rows are output pixels, columns (c, kh, kw)
}

// reachH and reachW are how far the last row and column of a window are from the first.
func (m *im2col) reachH() int { return (m.kh - 1) * max(m.dir, -m.dir) }
func (m *im2col) reachW() int { return (m.kw - 1) * max(m.dir, -m.dir) }

// fill writes element q = (c, kh, kw) of the windows of outputs p, p+1, ...
func (m *im2col) fill(dst []float32, q, p int) {
	kk := m.kh * m.kw
	c, kh, kw := q/kk, q%kk/m.kw, q%m.kw
	if m.mul == 1 && m.ow == m.w {
		m.fillShifted(dst, m.src[c*m.h*m.w:][:m.h*m.w], p, kh*m.dir+m.off, kw*m.dir+m.off)
		return
	}
	oh, ow := p/m.ow, p%m.ow
	for len(dst) > 0 {
		n := min(m.ow-ow, len(dst))
		if ih := oh*m.mul + kh*m.dir + m.off; ih < 0 || ih >= m.h {
			clear(dst[:n])
		} else {
			m.fillRow(dst[:n], m.src[(c*m.h+ih)*m.w:][:m.w], ow*m.mul+kw*m.dir+m.off)
		}
		dst, oh, ow = dst[n:], oh+1, 0
	}
}

// fillShifted is fill where rows of outputs are as wide as the image:
//
//  1. copy the image, moved by dh rows and dw columns, as one piece;
//  2. overwrite with zeros the columns that came round from a neighbouring row.
func (m *im2col) fillShifted(dst, image []float32, p, dh, dw int) {
	shift := dh*m.w + dw
	lo := min(max(0, -dh*m.w-p, -shift-p), len(dst))
	hi := max(lo, min(len(dst), (m.h-dh)*m.w-p, m.h*m.w-shift-p))
	clear(dst[:lo])
	if lo < hi {
		copy(dst[lo:hi], image[p+lo+shift:])
	}
	clear(dst[hi:])
	first, end := 0, min(-dw, m.w) // the columns that are outside the image
	if dw > 0 {
		first, end = max(0, m.w-dw), m.w
	}
	for at := p % m.w; first < end; first++ {
		for i := (first - at + m.w) % m.w; i < len(dst); i += m.w {
			dst[i] = 0
		}
	}
}

// fillRow writes pixels t, t+mul, ... of one image row, and zeros outside it.
func (m *im2col) fillRow(dst, row []float32, t int) {
	lo := min(work.CeilDiv(max(0, -t), m.mul), len(dst))
	hi := max(lo, min(len(dst), work.CeilDiv(max(0, len(row)-t), m.mul)))
	clear(dst[:lo])
	if lo < hi {
		m.copyRow(dst[lo:hi], row[t+lo*m.mul:])
	}
	clear(dst[hi:])
}

// copyRow writes every mul-th pixel of a row.
func (m *im2col) copyRow(dst, row []float32) {
	switch m.mul {
	case 1:
		copy(dst, row)
		return
	case 2:
		unzip(m.isa, dst, row)
		return
	}
	row = row[:(len(dst)-1)*m.mul+1]
	for at := 0; at < len(row); at += m.mul {
		dst[0] = row[at]
		dst = dst[1:]
	}
}
