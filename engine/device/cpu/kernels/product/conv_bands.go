package product

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// paddedBands cuts a convolution of planes, which writes no matrix of windows, into
// bands: some rows of output, whose input is copied with its padding. A tap is one
// element of a window; in the copy, moving from tap to tap is adding an offset.
//
// With a stride s, every row of the copy is cut into s phases, one of every s-th
// element, so that neighbouring pixels read neighbours.
type paddedBands struct {
	planes
	taps         []int // offset in the copy of each tap of each channel: [CG, KH, KW]
	bandRows     int   // rows of output in a band; the last band may have fewer
	bands        int   // of a plane
	pitch        int   // elements of a phase of a row of the copy
	copyRows     int   // rows of the copy
	baseH, baseW int   // input row and column at which the first output's window starts
	src          []float32
}

// bandFits reports whether the input of a band of so many rows of output fits, as
// so many elements of each channel.
type bandFits func(rows, plane int) bool

// cut makes bands as large as fit, and reports whether any do. Where there would be
// too few bands to share, and they hold enough work, they are smaller.
func (d *paddedBands) cut(fits bandFits) bool {
	im := &d.im
	d.baseH, d.baseW = im.off, im.off
	if im.dir < 0 {
		d.baseH, d.baseW = im.off-im.reachH(), im.off-im.reachW()
	}
	d.pitch = im.ow + im.reachW()/im.mul
	d.bandRows = im.oh
	fit := func() bool {
		d.copyRows = (d.bandRows-1)*im.mul + im.reachH() + 1
		return fits(d.bandRows, d.plane())
	}
	bandWork := func() int { return d.bandRows * im.ow * d.og * d.cg * im.kh * im.kw }
	for d.bandRows > 1 && (!fit() || d.whole*work.CeilDiv(im.oh, d.bandRows) < work.EnoughChunks && bandWork() >= 2*minChunkWork) {
		d.bandRows = (d.bandRows + 1) / 2
	}
	if im.oh == 0 || !fit() {
		return false
	}
	d.bands = work.CeilDiv(im.oh, d.bandRows)
	return true
}

// inWorkspace fits bands to the two halves of a workspace: the copy, and so many sums
// for each pixel.
func (d *paddedBands) inWorkspace(sums int) bandFits {
	return func(rows, plane int) bool {
		return d.cg*plane+maxDirectPixels[d.isa] <= bandInput && rows*d.im.ow*sums <= bandSums
	}
}

// plane is the elements of a channel of the copy. line is those from the start of
// one output row's windows to the start of the next one's.
func (d *paddedBands) plane() int { return d.copyRows * d.im.mul * d.pitch }
func (d *paddedBands) line() int  { return d.im.mul * d.im.mul * d.pitch }

// locate finds each tap of so many channels in the copy, where a channel is so many elements from the next.
func (d *paddedBands) locate(channels, apart int) {
	m := &d.im
	for c := range channels {
		for kh := range m.kh {
			for kw := range m.kw {
				h, w := kh*m.dir+m.off-d.baseH, kw*m.dir+m.off-d.baseW
				d.taps = append(d.taps, c*apart+(h*m.mul+w%m.mul)*d.pitch+w/m.mul)
			}
		}
	}
}

// rows are the output rows of a band.
func (d *paddedBands) rows(band int) (r0, r1 int) { return work.Interval(band, d.bandRows, d.im.oh) }

// copyBand copies the input of output rows r0..r1, all channels. What is outside the
// image becomes zeros.
func (d *paddedBands) copyBand(dst []float32, product, r0, r1 int) {
	for c := range d.cg {
		d.copyChannel(dst[c*d.plane():], product, c, r0, r1)
	}
}

// copyChannel is copyBand for one channel.
func (d *paddedBands) copyChannel(dst []float32, product, c, r0, r1 int) {
	m, at := &d.im, 0
	first := r0*m.mul + d.baseH
	rows := (r1-r0-1)*m.mul + m.reachH() + 1
	image := d.src[(product*d.cg+c)*m.h*m.w:][:m.h*m.w]
	if m.mul == 1 {
		d.copyImageRows(dst, image, first, rows)
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

// copyImageRows copies rows of an image from one on, at stride 1: rows above the
// image, rows inside it between zeros, rows below.
func (d *paddedBands) copyImageRows(dst, image []float32, first, rows int) {
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
		padRows(d.isa, dst[above*d.pitch:], d.pitch, image[(first+above)*m.w+max(0, d.baseW):], m.w, cols, inside, left)
	}
	clear(dst[(above+inside)*d.pitch : rows*d.pitch])
}
