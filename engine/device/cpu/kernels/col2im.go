package kernels

import "github.com/berth-ml/berth/engine/device/cpu/kernels/vec"

// col2im is dx of a convolution with a stride s: one product w'[g] * dy[n,g],
// C/G*K*K x H'W' over O/G, gives what each window adds to the pixels under it,
// and each pixel adds up its windows in the order of (kh, kw). Pixels in a row
// that are s apart lie under the same elements of neighbouring windows: they
// are a phase, and are added together.
//
// A chunk is some channels of some rows of one sample's dx.
type col2im struct {
	*conv
	vec            *vec.Funcs
	form           form
	stride, pad    int
	h, w, oh, ow   int // of dx and dy
	channels, rows int // of a chunk
	bands          int // of rows in a plane
	blocks         int // of channels in a group
}

const (
	mostColumns = 1 << 17 // elements of windows in a chunk, if there is a choice
	leastColumn = 64      // elements of a column that are worth packing dy once more
)

func newCol2im(k *conv, stride, pad int) *col2im {
	cg, og := k.perGroup()
	d := &col2im{
		conv: k, vec: k.level.vec(), form: k.level.formOf(false, cg*k.kk, k.py, og), stride: stride, pad: pad,
		h: k.im.oh, w: k.im.ow, oh: k.im.h, ow: k.im.w, channels: max(1, cg), rows: max(1, k.im.oh),
	}
	products := k.n * k.groups
	for {
		d.bands, d.blocks = chunks(d.h, d.rows), chunks(cg, d.channels)
		columns := d.channels * k.kk * min(d.oh, d.windows(d.rows)) * d.ow
		small := columns <= mostColumns
		enough := products*d.bands*d.blocks >= enoughChunks || columns*og < 2*leastWork
		switch {
		case small && enough:
			return d
		case d.channels > 1 && d.channels*k.kk >= 2*leastColumn:
			d.channels = (d.channels + 1) / 2
		case d.rows >= 2*k.im.kh && d.rows > 2*stride:
			d.rows = (d.rows + 1) / 2
		default:
			return d
		}
	}
}

// windows is the most rows of dy whose windows reach some rows of dx.
func (d *col2im) windows(rows int) int { return (rows+d.im.kh-2)/d.stride + 1 }

func (d *col2im) run(p Pool) { do(p, d.n*d.groups*d.blocks*d.bands, d) }

func (d *col2im) Chunk(i int) {
	cg, og := d.perGroup()
	h0, h1 := span(i%d.bands, d.rows, d.h)
	i /= d.bands
	c0, c1 := span(i%d.blocks, d.channels, cg)
	p := i / d.blocks
	r0 := chunks(max(0, h0+d.pad-d.im.kh+1), d.stride)
	r1 := max(r0, min(d.oh, (h1-1+d.pad)/d.stride+1))
	n := (r1 - r0) * d.ow
	ws := takeWorkspace()
	mem := ws.more((c1-c0)*d.kk*n + 2*d.w)
	cols, sums := mem.cut((c1-c0)*d.kk*n), mem.cut(2*d.w)
	g := gemm{
		level: d.level, form: d.form, k: og, c: cols, ldc: n,
		a: operand{d.conv.w[p%d.groups*og*cg*d.kk+c0*d.kk:], 1, cg * d.kk},
		b: operand{d.y[p*og*d.py+r0*d.ow:], d.py, 1},
	}
	g.tile(ws, 0, (c1-c0)*d.kk, 0, n)
	for c := c0; c < c1; c++ {
		plane := d.x[(p*cg+c)*d.px:][:d.px]
		for h := h0; h < h1; h++ {
			d.row(plane[h*d.w:][:d.w], cols[(c-c0)*d.kk*n:][:d.kk*n], sums, h, r0, r1)
		}
	}
	ws.giveBack()
	if d.then != nil {
		(*d.then).After(p*cg+c0, p*cg+c1, h0*d.w, h1*d.w)
	}
}

// row writes row h of a plane from the windows r0..r1 of its channel.
func (d *col2im) row(dst, cols, sums []float32, h, r0, r1 int) {
	if d.stride == 2 && d.w > 1 {
		even := d.phase(cols, sums[:chunks(d.w, 2)], 0, h, r0, r1)
		d.level.zip(dst, even, d.phase(cols, sums[d.w:][:d.w/2], 1, h, r0, r1))
		return
	}
	for phase := range min(d.stride, d.w) {
		sum := d.phase(cols, sums[:chunks(d.w-phase, d.stride)], phase, h, r0, r1)
		at := phase
		for _, v := range sum {
			dst[at] = v
			at += d.stride
		}
	}
}

// phase adds up a phase of row h. What is only one row of windows it returns as
// it is, else sums.
func (d *col2im) phase(cols, sums []float32, phase, h, r0, r1 int) []float32 {
	var sum []float32
	for kh := (h + d.pad) % d.stride; kh < d.im.kh; kh += d.stride {
		r := (h+d.pad-kh)/d.stride - r0
		if h+d.pad < kh || r < 0 || r >= r1-r0 {
			continue
		}
		for kw := (phase + d.pad) % d.stride; kw < d.im.kw; kw += d.stride {
			windows := cols[((kh*d.im.kw+kw)*(r1-r0)+r)*d.ow:][:d.ow]
			shift := (kw - d.pad - phase) / d.stride
			lo := min(max(0, shift), len(sums))
			hi := max(lo, min(len(sums), d.ow+shift))
			switch {
			case sum == nil && lo == 0 && hi == len(sums) && shift == 0:
				sum = windows[:hi]
				continue
			case sum == nil:
				clear(sums)
				sum = sums
			case &sum[0] != &sums[0]:
				copy(sums, sum)
				sum = sums
			}
			if lo < hi {
				d.vec.Add(sums[lo:hi], sums[lo:hi], windows[lo-shift:])
			}
		}
	}
	if sum == nil {
		clear(sums)
		return sums
	}
	return sum
}
