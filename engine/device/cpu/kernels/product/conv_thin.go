package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// thinned is the pixels of x that windows of one pixel begin at: with a stride, every
// stride-th of every stride-th row. They are copied, so that they lie as with a stride of 1.
type thinned struct {
	*convShape
	src, dst []float32
}

// thinnedX is x of a convolution with windows of one pixel and no padding.
func thinnedX(s *convShape) thinned { return thinned{convShape: s} }

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
