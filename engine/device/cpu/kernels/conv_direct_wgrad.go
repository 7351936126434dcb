package kernels

import "github.com/berth-ml/berth/engine/device/cpu/kernels/vec"

// directW is the gradient of a convolution's weights without windows in
// memory. The input is copied with its padding, channels innermost, so that
// the elements of windows that lie in a row are neighbours; dy is turned so
// that vectors hold output channels; and then the inner kernel of a direct
// convolution takes window elements for pixels and pixels for taps.
//
// Parts of the samples have sums of their own, [panel][window element][channel],
// in scratch memory. They are added in order.
type convDirectWGrad struct {
	*conv
	vec                         *vec.Funcs
	panelChannels, panels       int
	rowsMixed                   int // kernel rows that are interleaved in the copy: 1 or all
	pitch                       int // columns of the copy
	bandRows                    int // of output
	partials, samplesPerPartial int // of the samples
	taps                        []int
	stage                       int // 0 multiplies, 1 adds up parts, 2 writes weights
	sums                        []float32
}

// longestBand is how many pixels are summed before they are added to others.
const longestBand = 512

// newDirectW returns nil where it would not pay or not fit.
func newConvDirectWGrad(k *conv) *convDirectWGrad {
	m := &k.im
	cg, og := k.perGroup()
	d := &convDirectWGrad{conv: k, vec: k.isa.vec(), panelChannels: channelsPerPanel(k.isa, og), rowsMixed: 1}
	if most := maxDirectPixels[k.isa]; d.panelChannels == 0 || k.n == 0 || m.ow > longestBand {
		return nil
	} else if cg == 1 && 2*og < d.panelChannels && m.mul == 1 && m.ow == m.w {
		return nil // windows that are the plane, moved, are made sooner than multiplied with empty lanes
	} else if m.kw*cg < most {
		d.rowsMixed = m.kh
	}
	d.panels = ceilDiv(og, d.panelChannels)
	d.pitch = (m.ow-1)*m.mul + m.kw
	for d.bandRows = max(1, min(m.oh, longestBand/m.ow)); !d.fits(cg); d.bandRows-- {
		if d.bandRows == 1 {
			return nil
		}
	}
	parts := min(k.n, ceilDiv(enoughChunks, k.groups))
	d.samplesPerPartial = ceilDiv(k.n, parts)
	d.partials = ceilDiv(k.n, d.samplesPerPartial)
	for r := range d.bandRows {
		for w := range m.ow {
			line := r * m.mul
			if d.rowsMixed > 1 {
				line = r
			}
			d.taps = append(d.taps, (line*d.pitch+w*m.mul)*d.rowsMixed*cg)
		}
	}
	return d
}

// lines is how many lines the copy of a band has.
func (d *convDirectWGrad) lines(rows int) int {
	if d.rowsMixed > 1 {
		return rows
	}
	return (rows-1)*d.im.mul + d.im.kh
}

func (d *convDirectWGrad) fits(cg int) bool {
	lanes := isaSizes[d.isa].lanes
	return (d.lines(d.bandRows)+1)*(d.pitch+lanes)*d.rowsMixed*cg <= bandInput && d.pitch <= blockK
}

// elems is how many sums a panel has.
func (d *convDirectWGrad) elems() int { return d.c / d.groups * d.kk * d.panelChannels }

func (d *convDirectWGrad) scratch() int { return d.partials * d.groups * d.panels * d.elems() }

func (d *convDirectWGrad) run(p Pool, scratch []float32) {
	d.sums = scratch
	d.stage = 0
	do(p, d.partials*d.groups, d)
	if d.stage = 1; d.partials > 1 {
		do(p, ceilDiv(d.scratch()/d.partials, grain), d)
	}
	d.stage = 2
	do(p, d.o, d)
}

func (d *convDirectWGrad) Chunk(i int) {
	switch d.stage {
	case 1:
		addPartials(d.vec, d.sums, d.partials, d.scratch()/d.partials, i)
	case 2:
		d.finish(i)
	default:
		d.sumPartial(i)
	}
}

// part computes the sums of a part of the samples for a group.
func (d *convDirectWGrad) sumPartial(i int) {
	ws := takeWorkspace()
	part, group, add := i/d.groups, i%d.groups, 0
	for s := part * d.samplesPerPartial; s < min(d.n, (part+1)*d.samplesPerPartial); s++ {
		for r := 0; r < d.im.oh; r += d.bandRows {
			rows := min(d.bandRows, d.im.oh-r)
			d.copyBand(ws, s*d.groups+group, r, rows)
			for panel := range d.panels {
				d.turn(ws.b[bandInput:], s*d.groups+group, panel, r, rows)
				d.multiply(ws, d.sums[(i*d.panels+panel)*d.elems():][:d.elems()], rows, add)
			}
			add = 1
		}
	}
	ws.giveBack()
}

// copyBand copies the input of some output rows as [line][column][kernel row of
// mix][channel].
func (d *convDirectWGrad) copyBand(ws *workspace, product, r0, rows int) {
	m, cg := &d.im, d.c/d.groups
	src := d.x[product*cg*d.px:][:cg*d.px]
	first, step := max(0, -m.off), d.rowsMixed*cg // first column of the copy that is inside
	n := max(0, min(d.pitch-first, m.w-max(0, m.off)))
	for line := range d.lines(rows) {
		for row := range d.rowsMixed {
			h := r0*m.mul + m.off + line
			if d.rowsMixed > 1 {
				h = (r0+line)*m.mul + m.off + row
			}
			dst := ws.b[line*d.pitch*step+row*cg:]
			if h < 0 || h >= m.h || n == 0 {
				zeroRow(dst, d.pitch, step, cg)
				continue
			}
			zeroRow(dst, first, step, cg)
			d.turnRow(dst[first*step:], src[h*m.w+max(0, m.off):], n)
			zeroRow(dst[(first+n)*step:], d.pitch-first-n, step, cg)
		}
	}
}

// zeroRow clears n pixels of some channels.
func zeroRow(dst []float32, n, step, channels int) {
	for i := range n {
		clear(dst[i*step:][:channels])
	}
}

// turnRow writes n pixels of a row of all channels, channels innermost. It may
// write on to a whole number of lanes of pixels, which belong to the end of the
// line and to the next one: both are written later.
func (d *convDirectWGrad) turnRow(dst, src []float32, n int) {
	cg, lanes := d.c/d.groups, isaSizes[d.isa].lanes
	step, c := d.rowsMixed*cg, 0
	for ; c+lanes <= cg; c += lanes {
		d.isa.transpose(&dst[c], step, &src[c*d.px], d.px, n)
	}
	for ; c < cg; c++ {
		at := c
		for _, v := range src[c*d.px:][:n] {
			dst[at] = v
			at += step
		}
	}
}

// turn writes some rows of dy as [pixel][channel of a panel]. What is in lanes
// that no channel has is not used: they may get what follows in memory.
func (d *convDirectWGrad) turn(dst []float32, product, panel, r0, rows int) {
	og, lanes, o, n := d.o/d.groups, isaSizes[d.isa].lanes, panel*d.panelChannels, rows*d.im.ow
	src := d.y[(product*og+o)*d.py+r0*d.im.ow:]
	for v := 0; v < d.panelChannels; v += lanes {
		if o+v < og && (v+lanes-1)*d.py+n <= len(src) {
			d.isa.transpose(&dst[v], d.panelChannels, &src[v*d.py], d.py, n)
			continue
		}
		for l := v; l < v+lanes; l++ {
			for i := range n {
				dst[i*d.panelChannels+l] = 0
				if o+l < og {
					dst[i*d.panelChannels+l] = src[l*d.py+i]
				}
			}
		}
	}
}

// multiply adds a band's products to the sums, which are zero before if add is.
func (d *convDirectWGrad) multiply(ws *workspace, sums []float32, rows, add int) {
	m, cg := &d.im, d.c/d.groups
	run, most := m.kw*d.rowsMixed*cg, maxDirectPixels[d.isa]
	pieces, n := ceilDiv(run, most), rows*m.ow
	for row := range m.kh / d.rowsMixed {
		x := ws.b[row*d.pitch*cg:]
		for i := range pieces {
			e, end := run*i/pieces, run*(i+1)/pieces
			d.isa.direct(d.panelChannels, &sums[(row*run+e)*d.panelChannels], &x[e], &d.taps[0], &ws.b[bandInput], end-e, n, add)
		}
	}
}

// addParts adds up piece i of parts of n sums each.
func addPartials(v *vec.Funcs, sums []float32, parts, n, i int) {
	lo, hi := interval(i, grain, n)
	sum := sums[lo:hi]
	for part := 1; part < parts; part++ {
		v.Add(sum, sum, sums[part*n+lo:part*n+hi])
	}
}

// finish writes the weights of an output channel.
func (d *convDirectWGrad) finish(o int) {
	m, cg, og := &d.im, d.c/d.groups, d.o/d.groups
	sums := d.sums[(o/og*d.panels+o%og/d.panelChannels)*d.elems():][:d.elems()]
	lane, w := o%og%d.panelChannels, d.w[o*cg*d.kk:][:cg*d.kk]
	for c := range cg {
		for kh := range m.kh {
			for kw := range m.kw {
				e := kh*m.kw + kw
				if d.rowsMixed > 1 {
					e = kw*m.kh + kh
				}
				w[c*d.kk+kh*m.kw+kw] = sums[(e*cg+c)*d.panelChannels+lane]
			}
		}
	}
}
