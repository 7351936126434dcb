package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// thinned is the pixels of x that windows of one pixel begin at: with a stride, every
// stride-th of every stride-th row. They are copied, so that they lie as with a stride of 1.
type thinned struct {
	*convShape
	zeros    []float32 // half a row
	src, dst []float32
	then     *work.Epilogue
}

// thinnedX is x of a convolution with windows of one pixel and no padding.
func thinnedX(s *convShape) thinned { return thinned{convShape: s, zeros: make([]float32, s.w/2)} }

// elems is the elements that are copied: none at a stride of 1.
func (t *thinned) elems() int {
	if t.stride == 1 {
		return 0
	}
	return t.n * t.c * t.py()
}

// of is the pixels of x, [N,C,H',W']: x itself, or a copy in scratch memory.
func (t *thinned) of(p work.Pool, x, scratch []float32) []float32 {
	if t.elems() == 0 {
		return x
	}
	t.src, t.dst = x, scratch[:t.elems()]
	work.Do(p, work.CeilDiv(t.n*t.c, work.RowGrain(t.py())), t)
	return t.dst
}

// Chunk copies some planes.
func (t *thinned) Chunk(i int) {
	rows := im2col{isa: t.on.ISA, mul: t.stride}
	lo, hi := work.Interval(i, work.RowGrain(t.py()), t.n*t.c)
	for p := lo; p < hi; p++ {
		for r := range t.oh {
			rows.copyRow(t.dst[p*t.py()+r*t.ow:][:t.ow], t.src[p*t.px()+r*t.stride*t.w:][:(t.ow-1)*t.stride+1])
		}
	}
}

// spread is dx from its pixels that windows begin at, and zeros elsewhere. It writes to both.
func (t *thinned) spread(p work.Pool, dense, dx []float32, then *work.Epilogue) {
	t.src, t.dst, t.then = dense, dx, then
	work.Do(p, work.CeilDiv(t.n*t.c, work.RowGrain(t.px())), (*thinnedSpread)(t))
}

// thinnedSpread writes some planes of dx.
type thinnedSpread thinned

func (t *thinnedSpread) Chunk(i int) {
	lo, hi := work.Interval(i, work.RowGrain(t.px()), t.n*t.c)
	for p := lo; p < hi; p++ {
		plane, pixels := t.dst[p*t.px():][:t.px()], t.src[p*t.py():][:t.py()]
		t.on.ISA.Vec().AddScalar(pixels, pixels, 0) // as col2im adds to zeros: -0 becomes 0
		for h := range t.h {
			row := plane[h*t.w:][:t.w]
			if h%t.stride != 0 {
				clear(row)
				continue
			}
			src := pixels[h/t.stride*t.ow:][:t.ow]
			if t.stride == 2 {
				zip(t.on.ISA, row, src, t.zeros)
				continue
			}
			clear(row)
			for j, v := range src {
				row[j*t.stride] = v
			}
		}
	}
	if t.then != nil {
		(*t.then).After(lo, hi, 0, t.px())
	}
}
