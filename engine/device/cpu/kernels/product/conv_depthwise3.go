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

// columnLanes is the columns of a vector, also with AVX-512: a column that a wider
// vector had no use for would take as long as one that it has.
const columnLanes = 8

// hasColumns reports whether assembly goes down such images.
func (m *im2col) hasColumns() bool {
	return m.isa >= isa.AVX2 && m.kh == 3 && m.kw == 3 && m.mul <= 2 && max(m.dir, -m.dir) == 1 && m.h*m.w*m.oh*m.ow > 0
}

// add appends a vector of n columns of y, from column c on.
func (d *columns) add(m *im2col, c, n int) {
	d.vectors++
	x := c*m.mul + m.off
	d.at = append(d.at, x, c)
	loads := []int{0, m.dir, 2 * m.dir} // columns from x on
	if m.mul == 2 {
		loads = []int{0, columnLanes, 2, columnLanes + 2}
	}
	for _, from := range loads {
		for l := range columnLanes {
			at := x + from + l
			lane := l // of y
			if m.mul == 2 {
				lane = (from/columnLanes*columnLanes + l) / 2
			}
			d.masks = append(d.masks, maskOf(at >= 0 && at < m.w && lane < n))
		}
	}
}

func maskOf(in bool) int32 {
	if in {
		return -1
	}
	return 0
}

// convDepthwise3 is [convDepthwise] where windows are 3x3, with vectors. A chunk has some
// planes of a sample, or some rows of a plane.
type convDepthwise3 struct {
	planes
	columns
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
	d := &convDepthwise3{planes: of, bandRows: of.im.oh}
	ow := d.im.ow
	for c := 0; c < ow; c += columnLanes {
		d.add(&d.im, max(0, min(c, ow-columnLanes)), min(ow, columnLanes)) // the last vector computes some pixels again
	}
	for d.bandRows > 1 && d.count*work.CeilDiv(d.im.oh, d.bandRows) < work.EnoughChunks && d.bandRows*ow*9 >= 2*minChunkWork {
		d.bandRows = (d.bandRows + 1) / 2
	}
	d.bands = work.CeilDiv(d.im.oh, d.bandRows)
	d.bandsPerChunk = max(1, min(minChunkWork/(d.bandRows*ow*9), d.count*d.bands/work.EnoughChunks))
	d.piece = 1
	if d.bands == 1 {
		d.piece = work.RowGrain(d.im.oh * ow)
	}
	return d
}

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

// compute computes rows r0 to r1 of n planes. Where windows are read backwards, it goes
// up the images: the chain of a pixel's sum begins with the last row.
func (d *convDepthwise3) compute(plane, n, r0, r1 int) {
	m := &d.im
	x, y := d.src[plane*m.h*m.w:][:n*m.h*m.w], d.dst[plane*m.oh*m.ow:][:n*m.oh*m.ow]
	w := d.w[plane%d.groups*9:][:n*9]
	top, xstep, ystep, narrow := r0, m.w, m.ow, 0
	if m.dir < 0 {
		top, xstep, ystep = r1-1, -m.w, -m.ow
	}
	first := top*m.mul + m.off
	from := first * m.w
	if m.dir < 0 {
		first = m.h - 1 - first
	}
	if m.ow < columnLanes {
		narrow = m.ow
	}
	xp, yp := m.h*m.w, m.oh*m.ow
	if d.bands > 1 {
		xp, yp = d.bandRows*m.w*m.mul, d.bandRows*m.ow
	}
	if m.mul == 2 {
		depth3Other(d.isa, &y[top*m.ow], ystep, yp, &x[0], xstep, xp, m.h, first, from,
			&w[0], narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
		return
	}
	depth3Each(d.isa, &y[top*m.ow], ystep, yp, &x[0], xstep, xp, m.h, first, from,
		&w[0], m.dir, narrow, &d.at[0], &d.masks[0], d.vectors, r1-r0, n)
}
