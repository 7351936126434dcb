package kernels

// directPixels is how many pixels of a row the inner kernel of a direct
// convolution computes at most; 0 where there is none.
var directPixels = [...]int{Generic: 0, AVX2: 6, AVX512: 14, AMX: 14}

// What a band of output rows takes of a workspace, which holds both its input
// and its sums.
const (
	bandInput = maxCols * blockK / 2
	bandSums  = maxCols * blockK / 4
)

// direct is a convolution that writes no matrix of windows: its input is copied
// with its padding, and pixels are multiplied with vectors of weights of
// consecutive output channels. It sums in the order of a product, in blocks
// of K.
//
// With a stride s, every row of the copy is cut into s phases, one of every
// s-th element, so that neighbouring pixels read neighbours.
type direct struct {
	level         Level
	im            im2col // geometry
	count, cg, og int    // products, channels in and out of each
	groups        int    // of the weights
	taps          []int  // where each of K elements of a window is in the copy
	bandRows      int    // of output
	bands, panels int
	pitch, inRows int // of the copy: elements of a phase of a row, rows
	baseH, baseW  int // input row and column at which the first output's window starts
	wide          int // channels of a panel
	panelElems    int // of packed weights
	src, w, y     []float32
	packed        []float32
	wo, wc        int // strides of w: from output to output channel, and from input to input
	packing       bool
	then          *Epilogue
}

// directWide is how many of og output channels make a panel: one vector or two;
// 0 where there is no inner kernel.
func directWide(l Level, og int) int {
	lanes := levelSizes[l].lanes
	switch {
	case directPixels[l] == 0:
		return 0
	case og <= lanes:
		return lanes
	}
	return 2 * lanes
}

// newDirect returns nil where it would not pay or not fit. wo and wc are w's
// strides from one output and input channel of the product to the next.
func newDirect(l Level, im im2col, count, groups, cg, og, wo, wc int) *direct {
	wide := directWide(l, og)
	kk := im.kh * im.kw
	if wide == 0 || kk == 1 || 2*im.ow < directPixels[l]/2 || cg == 0 {
		return nil
	}
	d := &direct{level: l, im: im, count: count, groups: groups, cg: cg, og: og, wide: wide, wo: wo, wc: wc}
	if !d.cut(wide) {
		return nil
	}
	d.panels = chunks(og, wide)
	d.panelElems = (cg*kk + depthStep) * wide
	d.locate()
	return d
}

// cut divides the output into bands of rows, for which a pixel takes so many
// sums. It reports whether they fit.
func (d *direct) cut(sums int) bool {
	im := &d.im
	d.baseH, d.baseW = im.off, im.off
	if im.dir < 0 {
		d.baseH, d.baseW = im.off-(im.kh-1), im.off-(im.kw-1)
	}
	d.pitch = im.ow + (im.kw-1)/im.mul
	rowIn := func(rows int) int { return (rows-1)*im.mul + im.kh }
	d.bandRows = im.oh
	fits := func() bool {
		return d.cg*rowIn(d.bandRows)*d.pitch*im.mul+directPixels[d.level] <= bandInput && d.bandRows*im.ow*sums <= bandSums
	}
	work := func() int { return d.bandRows * im.ow * d.og * d.cg * im.kh * im.kw }
	for d.bandRows > 1 && (!fits() || d.count*chunks(im.oh, d.bandRows) < enoughChunks && work() >= 2*leastWork) {
		d.bandRows = (d.bandRows + 1) / 2
	}
	if im.oh == 0 || !fits() {
		return false
	}
	d.inRows, d.bands = rowIn(d.bandRows), chunks(im.oh, d.bandRows)
	return true
}

// locate finds each element of a window in the copy.
func (d *direct) locate() {
	m := &d.im
	for c := range d.cg {
		for kh := range m.kh {
			for kw := range m.kw {
				h, w := kh*m.dir+m.off-d.baseH, kw*m.dir+m.off-d.baseW
				d.taps = append(d.taps, ((c*d.inRows+h)*m.mul+w%m.mul)*d.pitch+w/m.mul)
			}
		}
	}
}

// scratch is how many elements the packed weights take. Each panel has room for
// what a transposing copy writes behind its rows.
func (d *direct) scratch() int { return d.groups * d.panels * d.panelElems }

func (d *direct) run(p Pool, src, w, y, scratch []float32, then *Epilogue) {
	d.src, d.w, d.y, d.packed, d.then = src, w, y, scratch, then
	d.packing = true
	do(p, d.groups, d)
	d.packing = false
	do(p, d.count*d.bands, d)
}

func (d *direct) Chunk(i int) {
	if d.packing {
		for panel := range d.panels {
			d.pack(i, panel)
		}
		return
	}
	ws := takeWorkspace()
	product, r0 := i/d.bands, i%d.bands*d.bandRows
	r1 := min(r0+d.bandRows, d.im.oh)
	d.copyBand(ws.b[:bandInput], product, r0, r1)
	for panel := range d.panels {
		d.multiply(ws, product%d.groups, panel, r1-r0)
		d.write(ws, product, panel, r0, r1)
	}
	ws.giveBack()
}

// pack writes the weights of a panel of output channels: [K][wide], zero where
// there is no such channel.
func (d *direct) pack(group, panel int) {
	kk, o := d.im.kh*d.im.kw, panel*d.wide
	dst := d.packed[(group*d.panels+panel)*d.panelElems:]
	n, lanes := min(d.wide, d.og-o), levelSizes[d.level].lanes
	src := d.w[group*d.og*d.cg*kk+o*d.wo:]
	run, k := kk, d.cg*kk // elements of w that lie in order
	if d.wc == kk {
		run = k
	}
	for at := 0; n == d.wide && at < k; at += run {
		for v := 0; v < d.wide; v += lanes {
			d.level.transpose(&dst[at*d.wide+v], d.wide, &src[at/kk*d.wc+v*d.wo], d.wo, run)
		}
	}
	if n == d.wide {
		return
	}
	clear(dst[:k*d.wide])
	for c := range d.cg {
		for j := range n {
			for t, v := range src[j*d.wo+c*d.wc:][:kk] {
				dst[(c*kk+t)*d.wide+j] = v
			}
		}
	}
}

// copyBand copies the input rows of output rows r0..r1 with what is outside as
// zeros.
func (d *direct) copyBand(dst []float32, product, r0, r1 int) {
	m, at := &d.im, 0
	first := r0*m.mul + d.baseH
	rows := (r1-r0-1)*m.mul + m.kh
	for c := range d.cg {
		image := d.src[(product*d.cg+c)*m.h*m.w:][:m.h*m.w]
		at = c * d.inRows * m.mul * d.pitch
		if m.mul == 1 {
			d.copyRows(dst[at:], image, first, rows)
			continue
		}
		for h := first; h < first+rows; h++ {
			row := dst[at:][:m.mul*d.pitch]
			at += len(row)
			if h < 0 || h >= m.h {
				clear(row)
				continue
			}
			for phase := range m.mul {
				m.fillRow(row[phase*d.pitch:][:d.pitch], image[h*m.w:][:m.w], d.baseW+phase)
			}
		}
	}
}

// copyRows copies rows of an image, of which those outside are zeros.
func (d *direct) copyRows(dst, image []float32, first, rows int) {
	m := &d.im
	left := min(max(0, -d.baseW), d.pitch)
	cols := max(0, min(d.pitch-left, m.w-max(0, d.baseW)))
	above := min(max(0, -first), rows)
	inside := max(0, min(first+rows, m.h)-(first+above))
	if cols == 0 {
		inside = 0
	}
	clear(dst[:above*d.pitch])
	if inside > 0 {
		d.level.padRows(dst[above*d.pitch:], d.pitch, image[(first+above)*m.w+max(0, d.baseW):], m.w, cols, inside, left)
	}
	clear(dst[(above+inside)*d.pitch : rows*d.pitch])
}

// multiply computes the sums [pixel][channel] of a band of rows for a panel.
func (d *direct) multiply(ws *workspace, group, panel, rows int) {
	x, sums := ws.b[:bandInput], ws.b[bandInput:][:bandSums]
	w := d.packed[(group*d.panels+panel)*d.panelElems:][:d.panelElems]
	k, ow := len(d.taps), d.im.ow
	depth, pieces, add := levelSizes[d.level].depth(k), chunks(ow, directPixels[d.level]), 0
	for k0 := 0; k0 < k; k0 += depth {
		kn := min(depth, k-k0)
		for r := range rows {
			line := x[r*d.im.mul*d.im.mul*d.pitch:]
			for i := range pieces {
				p, end := ow*i/pieces, ow*(i+1)/pieces
				d.level.direct(d.wide, &sums[(r*ow+p)*d.wide], &line[p], &d.taps[k0], &w[k0*d.wide], end-p, kn, add)
			}
		}
		add = 1
	}
}

// write turns the sums of a panel into rows of y, and goes on with them.
func (d *direct) write(ws *workspace, product, panel, r0, r1 int) {
	lanes, py := levelSizes[d.level].lanes, d.im.oh*d.im.ow
	o, j0, j1 := panel*d.wide, r0*d.im.ow, r1*d.im.ow
	end := min(o+d.wide, d.og)
	for v := o; v < end; v += lanes {
		for j := 0; j < j1-j0; j += lanes {
			at := max(0, min(j, j1-j0-lanes)) // the last ones again, rather than fewer
			src := &ws.b[bandInput+at*d.wide+v-o]
			y := d.y[(product*d.og+v)*py+j0+at:]
			if j1-j0 >= lanes && v+lanes <= end {
				d.level.transpose(&y[0], py, src, d.wide, lanes)
				continue
			}
			d.level.transpose(&ws.rows[0], lanes, src, d.wide, lanes)
			for i := range min(lanes, end-v) {
				copy(y[i*py:][:min(lanes, j1-j0)], ws.rows[i*lanes:][:lanes])
			}
		}
	}
	if d.then != nil {
		(*d.then).After(product*d.og+o, product*d.og+end, j0, j1)
	}
}
