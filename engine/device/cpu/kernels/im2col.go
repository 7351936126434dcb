package kernels

// im2col reads an image as the matrix of its convolution windows without
// writing that matrix down: row (c, kh, kw), column (h, w) of the output grid.
// Window element (kh, kw) of output (h, w) is the pixel at
// ((h*mul+kh*dir+off)/div, ...), zero where that is not whole or outside. The
// convolution itself has mul = stride, dir = 1, off = -pad, div = 1; its
// gradient for x reads dy with mul = 1, dir = -1, off = pad, div = stride. Zeros
// are multiplied like pixels, so an infinite weight gives NaN at a padded edge.
type im2col struct {
	src                []float32 // one group's channels of one sample, [C,H,W]
	h, w               int       // of src
	kh, kw             int       // of the kernel
	oh, ow             int       // of the output grid
	mul, dir, off, div int
	transposed         bool // rows are output pixels, columns (c, kh, kw)
}

// fill writes window element q = (c, kh, kw) of the output pixels from p on.
func (m *im2col) fill(dst []float32, q, p int) {
	kk := m.kh * m.kw
	c, kh, kw := q/kk, q%kk/m.kw, q%m.kw
	if m.mul == 1 && m.div == 1 && m.ow == m.w {
		m.fillShifted(dst, m.src[c*m.h*m.w:][:m.h*m.w], p, kh*m.dir+m.off, kw*m.dir+m.off)
		return
	}
	oh, ow := p/m.ow, p%m.ow
	for len(dst) > 0 {
		n := min(m.ow-ow, len(dst))
		t := oh*m.mul + kh*m.dir + m.off
		if ih := t / m.div; t < 0 || t%m.div != 0 || ih >= m.h {
			clear(dst[:n])
		} else {
			m.fillRow(dst[:n], m.src[(c*m.h+ih)*m.w:][:m.w], ow*m.mul+kw*m.dir+m.off)
		}
		dst, oh, ow = dst[n:], oh+1, 0
	}
}

// fillShifted writes output pixels p on where the output grid is as wide as
// the image: the image moved by dh rows and dw columns, as one piece. What
// came round from a neighbouring row is overwritten with zeros.
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

// fillRow writes pixels t/div, (t+mul)/div, ... of one image row. Either mul or
// div is 1.
func (m *im2col) fillRow(dst, row []float32, t int) {
	switch {
	case m.mul == 1 && m.div == 1:
		lo := min(max(0, -t), len(dst))
		hi := max(lo, min(len(dst), len(row)-t))
		clear(dst[:lo])
		if lo < hi {
			copy(dst[lo:hi], row[t+lo:t+hi])
		}
		clear(dst[hi:])
	case m.div == 1:
		for i := range dst {
			dst[i] = 0
			if t >= 0 && t < len(row) {
				dst[i] = row[t]
			}
			t += m.mul
		}
	default:
		clear(dst)
		i := max(0, -t)
		i += (m.div - (t+i)%m.div) % m.div // the first pixel that is whole
		for iw := (t + i) / m.div; i < len(dst) && iw < len(row); i, iw = i+m.div, iw+1 {
			dst[i] = row[iw]
		}
	}
}
