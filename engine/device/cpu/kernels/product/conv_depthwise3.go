package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// columns are the vectors of columns in which assembly goes down images whose windows
// are 3x3. Such images are read where they lie: masks stand for the padding on the left
// and on the right, and rows outside of an image are zeros.
type columns struct {
	vectors int
	at      []int   // of each vector: the columns of x and of y at which it begins
	masks   []int32 // of each load of a vector of columns: -1 in the lanes that are read
}

// columnLanes is the columns of a vector, also with AVX-512: many images are narrower
// than its vectors.
const columnLanes = 8

// hasColumns reports whether assembly goes down such images.
func (m *im2col) hasColumns() bool {
	return m.isa >= isa.AVX2 && m.kh == 3 && m.kw == 3 && m.mul <= 2 && max(m.dir, -m.dir) == 1 && m.h*m.w*m.oh*m.ow > 0
}

// add appends a vector that begins at columns x and y. From each of some columns on, from x, it loads the lanes that
// are inside a row of w pixels, and for which is holds.
func (d *columns) add(x, y, w int, from []int, is func(lane, from int) bool) {
	d.vectors++
	d.at = append(d.at, x, y)
	for _, first := range from {
		d.addMask(func(l int) bool {
			at := x + first + l
			return at >= 0 && at < w && is(l, first)
		})
	}
}

// addMask appends a mask of the lanes for which is holds.
func (d *columns) addMask(is func(lane int) bool) {
	for l := range columnLanes {
		mask := int32(0)
		if is(l) {
			mask = -1
		}
		d.masks = append(d.masks, mask)
	}
}

// addWindows appends a vector for n windows, the first one being c.
func (d *columns) addWindows(m *im2col, c, n int) {
	x := c*m.mul + m.off
	if m.mul == 1 {
		d.add(x, c, m.w, []int{0, m.dir, 2 * m.dir}, func(l, _ int) bool { return l < n })
		return
	}
	// Of two vectors together, the even lanes are the first tap and the odd ones the second. The third tap is
	// the even lanes from two columns further on.
	d.add(x, c, m.w, []int{0, columnLanes, 2, columnLanes + 2}, func(l, from int) bool {
		return (from/columnLanes*columnLanes+l)/2 < n
	})
}

// convDepthwise3 is [convDepthwise] and [convDepthwiseStride] where windows are 3x3, with vectors. A chunk has some
// planes, or some rows of a plane.
type convDepthwise3 struct {
	planes
	columns
	spreads         bool // dx of a stride of two
	narrow          int  // the columns of y that a vector computes, 0 for as many as it has
	bandRows, bands int
	bandsPerChunk   int
	piece           int // planes that assembly computes at once
	src, w, dst     []float32
	then            *work.Epilogue
}

// newConvDepthwise3 returns nil where another way is needed.
func newConvDepthwise3(s *convShape, of planes) *convDepthwise3 {
	if !s.isDepthwise() || !of.im.hasColumns() {
		return nil
	}
	d := &convDepthwise3{planes: of}
	ow := d.im.ow
	n := min(ow, columnLanes)
	if n < columnLanes {
		d.narrow = n
	}
	for c := 0; c < ow; c += columnLanes {
		d.addWindows(&d.im, min(c, ow-n), n) // the last vector computes some pixels again
	}
	d.cut()
	return d
}

// newConvDepthwise3Stride returns nil where another way is needed. With an odd padding, the pixels of an even row
// and column are in the middle of windows.
func newConvDepthwise3Stride(s *convShape) *convDepthwise3 {
	of := s.backward()
	if !s.isDepthwise() || !of.im.hasColumns() || s.stride != 2 || s.pad%2 == 0 {
		return nil
	}
	d := &convDepthwise3{planes: of, spreads: true}
	m := &d.im
	n := min(m.ow, 2*columnLanes-m.ow%2) // an even column is the first of each vector
	if n < 2*columnLanes {
		d.narrow = n
	}
	for c := 0; ; c += n &^ 1 {
		y := min(c, m.ow-n)
		d.add((y+m.off)/2, y, m.w, []int{0, 1}, func(int, int) bool { return true })
		if c+n >= m.ow {
			break
		}
	}
	d.cut()
	return d
}

// cut makes bands of rows where there are too few planes to share, and bands for images so large that going down
// a column reaches too far through memory.
func (d *convDepthwise3) cut() {
	oh, ow := d.im.oh, d.im.ow
	d.bandRows = oh
	bandWork := func() int { return d.bandRows * ow * 9 }
	tooFew := func() bool {
		return d.count*work.CeilDiv(oh, d.bandRows) < work.EnoughChunks && bandWork() >= 2*minChunkWork
	}
	for d.bandRows > 2 && (d.bandRows*ow > maxColumnPixels || tooFew()) {
		d.bandRows = work.CeilDiv(d.bandRows, 4) * 2 // even, for dx of a stride
	}
	d.bands = work.CeilDiv(oh, d.bandRows)
	d.bandsPerChunk = max(1, min(minChunkWork/bandWork(), d.count*d.bands/work.EnoughChunks))
	d.piece = 1
	if d.bands == 1 {
		d.piece = work.RowGrain(oh * ow)
	}
}

// maxColumnPixels is the most pixels of a band.
const maxColumnPixels = 1024

func (d *convDepthwise3) scratch() int { return 0 }

func (d *convDepthwise3) run(p work.Pool, src, w, dst, _ []float32, then *work.Epilogue) {
	d.src, d.w, d.dst, d.then = src, w, dst, then
	work.Do(p, work.CeilDiv(d.count*d.bands, d.bandsPerChunk), d)
}

func (d *convDepthwise3) Chunk(i int) {
	at, end := work.Interval(i, d.bandsPerChunk, d.count*d.bands)
	for at < end {
		plane := at / d.bands
		n := min(end-at, d.piece, d.groups-plane%d.groups)
		r0, r1 := work.Interval(at%d.bands, d.bandRows, d.im.oh)
		d.compute(plane, n, r0, r1)
		if d.then != nil {
			(*d.then).After(plane, plane+n, r0*d.im.ow, r1*d.im.ow)
		}
		at += n
	}
}

// compute computes rows r0 to r1 of n planes. Where windows are read backwards, it goes up the images, since a
// pixel's sum begins with the last row.
//
// Assembly takes the first row of y that it computes, and x from a plane's start on; the elements from row to row and
// from plane to plane; the height of x; the row of x that it reads first, counted from where it comes from, and its element;
// and what columns says.
func (d *convDepthwise3) compute(plane, n, r0, r1 int) {
	m := &d.im
	x, y := d.src[plane*m.h*m.w:][:n*m.h*m.w], d.dst[plane*m.oh*m.ow:][:n*m.oh*m.ow]
	w := d.w[plane%d.groups*9:][:n*9]
	xplane, yplane := m.h*m.w, m.oh*m.ow // the next plane, or of a single one what is fetched: the next band
	if d.bands > 1 {
		xplane, yplane = d.bandRows*m.w*m.mul, d.bandRows*m.ow
	}
	switch {
	case d.spreads:
		first := (r0 + m.off) / 2
		depth3Spread(d.isa, &y[r0*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, first, first*m.w,
			&w[0], d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	case m.mul == 2:
		first := r0*2 + m.off
		depth3Other(d.isa, &y[r0*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, first, first*m.w,
			&w[0], d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	case m.dir < 0:
		first := r1 - 1 + m.off
		depth3Each(d.isa, &y[(r1-1)*m.ow], -m.ow, yplane, &x[0], -m.w, xplane, m.h, m.h-1-first, first*m.w,
			&w[0], -1, d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	default:
		first := r0 + m.off
		depth3Each(d.isa, &y[r0*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, first, first*m.w,
			&w[0], 1, d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	}
}
