package kernels

// directPixels is how many pixels of a row the inner kernel of a direct
// convolution computes at most; 0 where there is none.
var maxDirectPixels = [...]int{Generic: 0, AVX2: 6, AVX512: 14, AMX: 14}

// What a band of output rows takes of a workspace, which holds both its input
// and its sums.
const (
	bandInput = maxCols * blockK / 2
	bandSums  = maxCols * blockK / 4
)

// direct is a convolution that writes no matrix of windows: its input is copied
// with its padding ([banded]), and pixels are multiplied with vectors of weights of
// consecutive output channels. It sums in the order of a product, in blocks
// of K.
type convDirect struct {
	paddedBands
	panels        int
	panelChannels int // channels of a panel
	panelElems    int // of packed weights
	w, y          []float32
	packed        []float32
	wo, wc        int // strides of w: from output to output channel, and from input to input
	packing       bool
	then          *Epilogue
}

// directWide is how many of og output channels make a panel: one vector or two;
// 0 where there is no inner kernel.
func channelsPerPanel(l ISA, og int) int {
	lanes := isaSizes[l].lanes
	switch {
	case maxDirectPixels[l] == 0:
		return 0
	case og <= lanes:
		return lanes
	}
	return 2 * lanes
}

// newDirect returns nil where it would not pay or not fit. wo and wc are as for
// [newPlaneConv].
func newConvDirect(l ISA, im im2col, count, groups, cg, og, wo, wc int) *convDirect {
	wide := channelsPerPanel(l, og)
	kk := im.kh * im.kw
	if wide == 0 || kk == 1 || 2*im.ow < maxDirectPixels[l]/2 || cg == 0 {
		return nil
	}
	d := &convDirect{paddedBands: paddedBands{isa: l, im: im, count: count, groups: groups, cg: cg, og: og}, panelChannels: wide, wo: wo, wc: wc}
	if !d.cut(d.inWorkspace(wide)) {
		return nil
	}
	d.locate()
	d.panels = ceilDiv(og, wide)
	d.panelElems = (cg*kk + depthStep) * wide
	return d
}

// scratch is how many elements the packed weights take. Each panel has room for
// what a transposing copy writes behind its rows.
func (d *convDirect) scratch() int { return d.groups * d.panels * d.panelElems }

func (d *convDirect) run(p Pool, src, w, y, scratch []float32, then *Epilogue) {
	d.src, d.w, d.y, d.packed, d.then = src, w, y, scratch, then
	d.packing = true
	do(p, d.groups, d)
	d.packing = false
	do(p, d.count*d.bands, d)
}

func (d *convDirect) Chunk(i int) {
	if d.packing {
		for panel := range d.panels {
			d.pack(i, panel)
		}
		return
	}
	ws := takeWorkspace()
	product := i / d.bands
	r0, r1 := d.rows(i % d.bands)
	d.copyBand(ws.b[:bandInput], product, r0, r1)
	for panel := range d.panels {
		d.multiply(ws, product%d.groups, panel, r1-r0)
		d.write(ws, product, panel, r0, r1)
	}
	ws.giveBack()
}

// pack writes the weights of a panel of output channels: [K][wide], zero where
// there is no such channel.
func (d *convDirect) pack(group, panel int) {
	kk, o := d.im.kh*d.im.kw, panel*d.panelChannels
	dst := d.packed[(group*d.panels+panel)*d.panelElems:]
	n, lanes := min(d.panelChannels, d.og-o), isaSizes[d.isa].lanes
	src := d.w[group*d.og*d.cg*kk+o*d.wo:]
	run, k := kk, d.cg*kk // elements of w that lie in order
	if d.wc == kk {
		run = k
	}
	for at := 0; n == d.panelChannels && at < k; at += run {
		for v := 0; v < d.panelChannels; v += lanes {
			d.isa.transpose(&dst[at*d.panelChannels+v], d.panelChannels, &src[at/kk*d.wc+v*d.wo], d.wo, run)
		}
	}
	if n == d.panelChannels {
		return
	}
	clear(dst[:k*d.panelChannels])
	for c := range d.cg {
		for j := range n {
			for t, v := range src[j*d.wo+c*d.wc:][:kk] {
				dst[(c*kk+t)*d.panelChannels+j] = v
			}
		}
	}
}

// multiply computes the sums [pixel][channel] of a band of rows for a panel.
func (d *convDirect) multiply(ws *workspace, group, panel, rows int) {
	x, sums := ws.b[:bandInput], ws.b[bandInput:][:bandSums]
	w := d.packed[(group*d.panels+panel)*d.panelElems:][:d.panelElems]
	k, ow := len(d.taps), d.im.ow
	depth, pieces, add := isaSizes[d.isa].depth(k), ceilDiv(ow, maxDirectPixels[d.isa]), 0
	for k0 := 0; k0 < k; k0 += depth {
		kn := min(depth, k-k0)
		for r := range rows {
			line := x[r*d.line():]
			for i := range pieces {
				p, end := ow*i/pieces, ow*(i+1)/pieces
				d.isa.direct(d.panelChannels, &sums[(r*ow+p)*d.panelChannels], &line[p], &d.taps[k0], &w[k0*d.panelChannels], end-p, kn, add)
			}
		}
		add = 1
	}
}

// write turns the sums of a panel into rows of y, and goes on with them.
func (d *convDirect) write(ws *workspace, product, panel, r0, r1 int) {
	lanes, py := isaSizes[d.isa].lanes, d.im.oh*d.im.ow
	o, j0, j1 := panel*d.panelChannels, r0*d.im.ow, r1*d.im.ow
	end := min(o+d.panelChannels, d.og)
	for v := o; v < end; v += lanes {
		for j := 0; j < j1-j0; j += lanes {
			at := max(0, min(j, j1-j0-lanes)) // the last ones again, rather than fewer
			src := &ws.b[bandInput+at*d.panelChannels+v-o]
			y := d.y[(product*d.og+v)*py+j0+at:]
			if j1-j0 >= lanes && v+lanes <= end {
				d.isa.transpose(&y[0], py, src, d.panelChannels, lanes)
				continue
			}
			d.isa.transpose(&ws.rows[0], lanes, src, d.panelChannels, lanes)
			for i := range min(lanes, end-v) {
				copy(y[i*py:][:min(lanes, j1-j0)], ws.rows[i*lanes:][:lanes])
			}
		}
	}
	if d.then != nil {
		(*d.then).After(product*d.og+o, product*d.og+end, j0, j1)
	}
}
