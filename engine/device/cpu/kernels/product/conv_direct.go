package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// maxDirectPixels is the most pixels of a row that the inner kernel of a direct
// convolution computes at once; 0 where there is no such kernel.
var maxDirectPixels = [...]int{isa.Generic: 0, isa.AVX2: 6, isa.AVX512: 14, isa.AMX: 14}

// The elements of a workspace that a band takes, in the memory of a block of B: its
// input, and its sums.
const (
	bandInput = maxCols * blockK / 2
	bandSums  = maxCols * blockK / 4
)

// convDirect is a convolution of planes without a matrix of windows. A band of the
// input is copied with its padding ([paddedBands]). Its pixels are multiplied with
// vectors of the weights of consecutive channels out, which makes sums [pixel][channel
// of a panel]; these are transposed into rows of the output. It sums in the order of
// a product, in blocks of K.
//
// Factors of bfloat16 are rounded while they are copied. A word then has two channels in of a pixel, or of a weight.
type convDirect struct {
	paddedBands
	paired        bool // channels in are
	words         int  // channels in, or pairs of them, in a group
	apart         int  // words of one in the copy
	panels        int  // of channels out, in a group
	panelChannels int  // channels out of a panel: one vector, or two
	panelElems    int  // elements of a panel of packed weights
	w, dst        []float32
	packed        []float32 // weights: [group][panel][tap of a channel in][channel of the panel]
	then          *work.Epilogue
}

// channelsPerPanel is the channels of a panel, where there are og channels out; 0 where
// there is no inner kernel.
func channelsPerPanel(i isa.ISA, og int) int {
	lanes := isaSizes[i].lanes
	switch {
	case maxDirectPixels[i] == 0:
		return 0
	case og <= lanes:
		return lanes
	}
	return 2 * lanes
}

// convVectors adds up k taps for some pixels of a row, at most those of
// [maxDirectPixels]: y[p][c] = sum over t of x[taps[t]+p] * w[t][c], for the channels
// c of a panel. With add not 0, that is added to y.
func convVectors(i isa.ISA, channels int, y, x *float32, taps *int, w *float32, pixels, k, add int) {
	if channels == isaSizes[i].lanes {
		convOneVector(i, y, x, taps, w, pixels, k, add)
		return
	}
	convTwoVectors(i, y, x, taps, w, pixels, k, add)
}

// convPairs is convVectors for pairs of bfloat16: a tap is one of two channels in, or of two pixels.
func convPairs(i isa.ISA, channels int, y, x *float32, taps *int, w *float32, pixels, k, add int) {
	if channels == isaSizes[i].lanes {
		convOnePairs(y, x, taps, w, pixels, k, add)
		return
	}
	convTwoPairs(y, x, taps, w, pixels, k, add)
}

// newConvDirect returns nil where the way would not pay, or a band would not fit.
func newConvDirect(s planes) *convDirect {
	channels := channelsPerPanel(s.isa, s.og)
	if channels == 0 || s.kk() == 1 || 2*s.im.ow < maxDirectPixels[s.isa]/2 || s.cg == 0 {
		return nil
	}
	d := &convDirect{paddedBands: paddedBands{planes: s}, panelChannels: channels}
	d.paired = s.pairs && s.cg > 1 && d.cut(d.pairsInWorkspace)
	if d.paired {
		d.words, d.apart = work.CeilDiv(s.cg, 2), pairsApart(d.plane())
	} else {
		if !d.cut(d.inWorkspace(channels)) {
			return nil
		}
		d.words, d.apart = s.cg, d.plane()
	}
	d.locate(d.words, d.apart)
	d.panels = work.CeilDiv(s.og, channels)
	d.panelElems = (work.CeilDiv(s.cg, 2)*2*s.kk() + depthStep) * channels
	return d
}

// rounds implements [rounder].
func (d *convDirect) rounds() bool { return d.paired }

// pairsInWorkspace is a [bandFits] for pairs of channels, with room for one channel more: see copyPairs. The channels out do not
// count, so that a part of them goes the same way.
func (d *convDirect) pairsInWorkspace(rows, plane int) bool {
	words := (work.CeilDiv(d.cg, 2)+1)*pairsApart(plane) + maxDirectPixels[d.isa]
	return words <= bandInput && rows*d.im.ow*2*isaSizes[d.isa].lanes <= bandSums
}

// pairsApart is the words from one pair of channels to the next, where a channel has so many elements.
func pairsApart(plane int) int { return work.CeilDiv(plane, line) * line }

// copyPairs is copyBand for pairs: two channels are copied side by side, and become one.
func (d *convDirect) copyPairs(dst []float32, product, r0, r1 int) {
	for c := 0; c < d.cg; c += 2 {
		pair := dst[c/2*d.apart:]
		second := pair[d.apart:][:d.apart]
		d.copyChannel(pair, product, c, r0, r1)
		if c+1 < d.cg {
			d.copyChannel(second, product, c+1, r0, r1)
		} else {
			clear(second)
		}
		pairRows(pair, d.apart, 1)
	}
}

// scratch is the packed weights. Each panel has room for the rows that a transposing
// copy writes behind it.
func (d *convDirect) scratch() int { return d.groups * d.panels * d.panelElems }

func (d *convDirect) run(p work.Pool, src, w, dst, scratch []float32, then *work.Epilogue) {
	d.src, d.w, d.dst, d.packed, d.then = src, w, dst, scratch, then
	work.Do(p, d.groups, (*convDirectPack)(d))
	work.Do(p, d.count*d.bands, d)
}

// convDirectPack packs the weights, a group at a time.
type convDirectPack convDirect

func (d *convDirectPack) Chunk(group int) {
	for panel := range d.panels {
		d.pack(group, panel)
	}
}

// pack writes the weights of a panel of channels out.
func (d *convDirectPack) pack(group, panel int) {
	dst := d.packed[(group*d.panels+panel)*d.panelElems:][:d.panelElems]
	d.packFloats(dst, group, panel)
	if !d.paired {
		return
	}
	width := (*convDirect)(d).kk() * d.panelChannels // of all taps of a channel in
	if d.cg%2 == 1 {
		clear(dst[d.cg*width:][:width])
	}
	pairRows(dst, width, d.words)
}

// packFloats is pack without pairs. Channels that the last panel lacks get zeros.
func (d *convDirectPack) packFloats(dst []float32, group, panel int) {
	kk, o := d.kk(), panel*d.panelChannels
	n, lanes := min(d.panelChannels, d.og-o), isaSizes[d.isa].lanes
	src := d.w[group*d.og*d.cg*kk+o*d.wo:]
	inOrder, k := kk, d.cg*kk // elements of w that lie in order
	if d.wc == kk {
		inOrder = k
	}
	for at := 0; n == d.panelChannels && at < k; at += inOrder {
		for v := 0; v < d.panelChannels; v += lanes {
			transpose(d.isa, &dst[at*d.panelChannels+v], d.panelChannels, &src[at/kk*d.wc+v*d.wo], d.wo, inOrder)
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

// Chunk computes a band of a sample and group, panel by panel.
func (d *convDirect) Chunk(i int) {
	ws := takeWorkspace()
	product := i / d.bands
	r0, r1 := d.rows(i % d.bands)
	if d.paired {
		d.copyPairs(ws.b[:bandInput], product, r0, r1)
	} else {
		d.copyBand(ws.b[:bandInput], product, r0, r1)
	}
	for panel := range d.panels {
		d.multiply(ws, product%d.groups, panel, r1-r0)
		d.write(ws, product, panel, r0, r1)
	}
	ws.giveBack()
}

// multiply computes the sums [pixel][channel] of a band of rows for a panel.
func (d *convDirect) multiply(ws *workspace, group, panel, rows int) {
	x, sums := ws.b[:bandInput], ws.b[bandInput:][:bandSums]
	w := d.packed[(group*d.panels+panel)*d.panelElems:][:d.panelElems]
	k, ow, channels := len(d.taps), d.im.ow, d.panelChannels
	multiply := convVectors
	if d.paired {
		multiply = convPairs
	}
	depth, pieces, add := isaSizes[d.isa].depth(k), work.CeilDiv(ow, maxDirectPixels[d.isa]), 0
	for k0 := 0; k0 < k; k0 += depth {
		kn := min(depth, k-k0)
		for r := range rows {
			line := x[r*d.line():]
			for i := range pieces {
				p, end := ow*i/pieces, ow*(i+1)/pieces
				multiply(d.isa, channels, &sums[(r*ow+p)*channels], &line[p], &d.taps[k0], &w[k0*channels], end-p, kn, add)
			}
		}
		add = 1
	}
}

// write transposes the sums of a panel into rows of the output, and lets the
// epilogue follow. Where the last pixels do not fill a vector, earlier ones are
// written again with them.
func (d *convDirect) write(ws *workspace, product, panel, r0, r1 int) {
	lanes, pixels, channels := isaSizes[d.isa].lanes, d.im.oh*d.im.ow, d.panelChannels
	o, j0, j1 := panel*channels, r0*d.im.ow, r1*d.im.ow
	end := min(o+channels, d.og)
	for v := o; v < end; v += lanes {
		for j := 0; j < j1-j0; j += lanes {
			at := max(0, min(j, j1-j0-lanes))
			src := &ws.b[bandInput+at*channels+v-o]
			y := d.dst[(product*d.og+v)*pixels+j0+at:]
			if j1-j0 >= lanes && v+lanes <= end {
				transpose(d.isa, &y[0], pixels, src, channels, lanes)
				continue
			}
			transpose(d.isa, &ws.rows[0], lanes, src, channels, lanes)
			for i := range min(lanes, end-v) {
				copy(y[i*pixels:][:min(lanes, j1-j0)], ws.rows[i*lanes:][:lanes])
			}
		}
	}
	if d.then != nil {
		(*d.then).After(product*d.og+o, product*d.og+end, j0, j1)
	}
}
