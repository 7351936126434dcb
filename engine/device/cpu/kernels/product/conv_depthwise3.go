package product

import (
	"github.com/berth-ml/berth/engine/device/cpu/kernels/isa"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
)

// columns are the vectors of columns in which assembly goes down images whose windows
// are 3x3. Such images are read where they lie: masks stand for the padding on the left
// and on the right, and rows outside of an image are zeros.
type columns struct {
	set     isa.ISA // whose vectors they are
	lanes   int     // of a vector
	vectors int
	at      []int   // of each vector: the columns of x and of y at which it begins
	masks   []int32 // of each load of a vector of columns: see addMask
	layout  []int32 // how two images of at most eight columns lie in one vector, nil where they do not: see addPairs
}

// columnLanes is the columns of a vector of AVX2. Narrow images have no more with AVX-512.
const columnLanes = 8

// hasColumns reports whether assembly goes down such images.
func (m *im2col) hasColumns() bool {
	return m.isa >= isa.AVX2 && m.kh == 3 && m.kw == 3 && m.mul <= 2 && max(m.dir, -m.dir) == 1 && m.h*m.w*m.oh*m.ow > 0
}

// columnsOf chooses the vectors for images whose rows of y have so many columns.
func columnsOf(set isa.ISA, ow int) columns {
	if ow <= columnLanes {
		set = isa.AVX2
	}
	return columns{set: set, lanes: isaSizes[set].lanes}
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

// addMask appends a mask of the lanes for which is holds: -1 in these, or, as AVX-512 takes masks, their bits.
func (d *columns) addMask(is func(lane int) bool) {
	if d.set >= isa.AVX512 {
		d.masks = append(d.masks, laneBits(is))
		return
	}
	for l := range d.lanes {
		mask := int32(0)
		if is(l) {
			mask = -1
		}
		d.masks = append(d.masks, mask)
	}
}

// laneBits is the bits of the lanes of a vector of AVX-512 for which is holds.
func laneBits(is func(lane int) bool) (bits int32) {
	for l := range 2 * columnLanes {
		if is(l) {
			bits |= 1 << l
		}
	}
	return bits
}

// addPairs lays out two images, if rows of x and of y are short enough: where each lane's taps are, in a row of
// the first image and one of the second, and the masks of each tap, of a row of x, of the first image's and the
// second one's row of y, and of the upper half.
func (d *columns) addPairs(m *im2col) {
	if m.isa < isa.AVX512 || m.ow > columnLanes || m.w > 2*columnLanes {
		return
	}
	var masks []int32
	for t := range 3 {
		column := func(l int) int { return l%columnLanes*m.mul + m.off + t*m.dir }
		for l := range 2 * columnLanes {
			d.layout = append(d.layout, int32(column(l)+l/columnLanes*2*columnLanes))
		}
		masks = append(masks, laneBits(func(l int) bool { return l%columnLanes < m.ow && column(l) >= 0 && column(l) < m.w }))
	}
	d.layout = append(append(d.layout, masks...),
		laneBits(func(l int) bool { return l < m.w }), 1<<m.ow-1, (1<<m.ow-1)<<columnLanes, 0xff<<columnLanes)
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
	d.add(x, c, m.w, []int{0, d.lanes, 2, d.lanes + 2}, func(l, from int) bool {
		return (from/d.lanes*d.lanes+l)/2 < n
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
	ow := of.im.ow
	d := &convDepthwise3{planes: of, columns: columnsOf(of.im.isa, ow)}
	n := min(ow, d.lanes)
	if n < d.lanes {
		d.narrow = n
	}
	for c := 0; c < ow; c += d.lanes {
		d.addWindows(&d.im, min(c, ow-n), n) // the last vector computes some pixels again
	}
	d.addPairs(&d.im)
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
	d := &convDepthwise3{planes: of, columns: columns{set: isa.AVX2, lanes: columnLanes}, spreads: true}
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
	d.bandsPerChunk = d.paired(max(1, min(minChunkWork/bandWork(), d.count*d.bands/work.EnoughChunks)))
	d.piece = 1
	if d.bands == 1 {
		d.piece = d.paired(work.RowGrain(oh * ow))
	}
}

// paired is n images, or one less where that leaves none without another in its vectors.
func (d *columns) paired(n int) int {
	if d.layout != nil && n > 1 {
		return n &^ 1
	}
	return n
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
	xplane, yplane := m.h*m.w, m.oh*m.ow // the next plane, or of a single one what is fetched: the next band
	if d.bands > 1 {
		xplane, yplane = d.bandRows*m.w*m.mul, d.bandRows*m.ow
	}
	row, step, first := r0, 1, r0*m.mul+m.off
	switch {
	case d.spreads:
		first = (r0 + m.off) / 2
	case m.dir < 0:
		row, step, first = r1-1, -1, r1-1+m.off
	}
	from, skipped := first*m.w, first // rows of x that are not read
	if step < 0 {
		skipped = m.h - 1 - first
	}
	if pairs := n / 2; d.layout != nil && d.bands == 1 && pairs > 0 {
		x, y, w := d.operands(plane, 2*pairs)
		if m.mul == 2 {
			depth3PairsOther(&y[row*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, skipped, from, &w[0], &d.layout[0], r1-r0, pairs)
		} else {
			depth3Pairs(&y[row*m.ow], step*m.ow, yplane, &x[0], step*m.w, xplane, m.h, skipped, from, &w[0], &d.layout[0], r1-r0, pairs)
		}
		plane, n = plane+2*pairs, n-2*pairs
		if n == 0 {
			return
		}
	}
	x, y, w := d.operands(plane, n)
	switch {
	case d.spreads:
		depth3Spread(d.set, &y[row*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, skipped, from,
			&w[0], d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	case m.mul == 2:
		depth3Other(d.set, &y[row*m.ow], m.ow, yplane, &x[0], m.w, xplane, m.h, skipped, from,
			&w[0], d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	default:
		depth3Each(d.set, &y[row*m.ow], step*m.ow, yplane, &x[0], step*m.w, xplane, m.h, skipped, from,
			&w[0], step, d.narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
	}
}

// operands are n planes of x and of y, and their weights.
func (d *convDepthwise3) operands(plane, n int) (x, y, w []float32) {
	px, py := d.im.h*d.im.w, d.im.oh*d.im.ow
	return d.src[plane*px:][:n*px], d.dst[plane*py:][:n*py], d.w[plane%d.groups*9:][:n*9]
}
