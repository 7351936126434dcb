package kernels

// banded is how a convolution without windows in memory goes through an image: the
// output is cut into bands of rows, and the input of a band is copied with
// its padding. With a stride s, every row of the copy is cut into s phases, one of
// every s-th element, so that neighbouring pixels read neighbours.
type paddedBands struct {
	isa           ISA
	im            im2col
	count, cg, og int   // products, channels in and out of each
	groups        int   // of the weights
	taps          []int // where each of K elements of a window is in the copy
	bandRows      int   // of output
	bands         int
	pitch, inRows int // of the copy: elements of a phase of a row, rows
	baseH, baseW  int // input row and column at which the first output's window starts
	src           []float32
}

// bandFits reports whether the input of a band of rows of output fits, plane
// elements of each channel.
type bandFits func(rows, plane int) bool

// cut makes bands as large as fit. It reports whether they do. Where there would be
// few, and enough work, they are smaller.
func (d *paddedBands) cut(fits bandFits) bool {
	im := &d.im
	d.baseH, d.baseW = im.off, im.off
	if im.dir < 0 {
		d.baseH, d.baseW = im.off-(im.kh-1), im.off-(im.kw-1)
	}
	d.pitch = im.ow + (im.kw-1)/im.mul
	d.bandRows = im.oh
	fit := func() bool {
		d.inRows = (d.bandRows-1)*im.mul + im.kh
		return fits(d.bandRows, d.plane())
	}
	work := func() int { return d.bandRows * im.ow * d.og * d.cg * im.kh * im.kw }
	for d.bandRows > 1 && (!fit() || d.count*ceilDiv(im.oh, d.bandRows) < enoughChunks && work() >= 2*minChunkWork) {
		d.bandRows = (d.bandRows + 1) / 2
	}
	if im.oh == 0 || !fit() {
		return false
	}
	d.bands = ceilDiv(im.oh, d.bandRows)
	return true
}

// inWorkspace is what fits a workspace's two halves: the copy, and so many sums of
// each pixel.
func (d *paddedBands) inWorkspace(sums int) bandFits {
	return func(rows, plane int) bool {
		return d.cg*plane+maxDirectPixels[d.isa] <= bandInput && rows*d.im.ow*sums <= bandSums
	}
}

// plane is the elements of a channel of the copy, and line those between the
// rows that two rows of output start at.
func (d *paddedBands) plane() int { return d.inRows * d.im.mul * d.pitch }
func (d *paddedBands) line() int  { return d.im.mul * d.im.mul * d.pitch }

// locate finds each element of a window in the copy.
func (d *paddedBands) locate() {
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

// rows are the output rows of a band.
func (d *paddedBands) rows(band int) (r0, r1 int) { return interval(band, d.bandRows, d.im.oh) }

// copyBand copies the input of output rows r0..r1 with what is outside as zeros.
func (d *paddedBands) copyBand(dst []float32, product, r0, r1 int) {
	for c := range d.cg {
		d.copyChannel(dst[c*d.plane():], product, c, r0, r1)
	}
}

// copyChannel is copyBand of one channel.
func (d *paddedBands) copyChannel(dst []float32, product, c, r0, r1 int) {
	m, at := &d.im, 0
	first := r0*m.mul + d.baseH
	rows := (r1-r0-1)*m.mul + m.kh
	image := d.src[(product*d.cg+c)*m.h*m.w:][:m.h*m.w]
	if m.mul == 1 {
		d.copyRows(dst, image, first, rows)
		return
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

// copyRows copies rows of an image, of which those outside are zeros.
func (d *paddedBands) copyRows(dst, image []float32, first, rows int) {
	m := &d.im
	left := min(max(0, -d.baseW), d.pitch)
	cols := max(0, min(d.pitch-left, m.w-max(0, d.baseW)))
	above := min(max(0, -first), rows)
	inside := max(0, min(first+rows, m.h)-(first+above))
	if cols == 0 {
		inside = 0
	}
	clear(dst[:above*d.pitch])
	switch {
	case inside > 0 && cols == d.pitch && cols == m.w:
		copy(dst[above*d.pitch:][:inside*cols], image[(first+above)*cols:])
	case inside > 0:
		d.isa.padRows(dst[above*d.pitch:], d.pitch, image[(first+above)*m.w+max(0, d.baseW):], m.w, cols, inside, left)
	}
	clear(dst[(above+inside)*d.pitch : rows*d.pitch])
}
