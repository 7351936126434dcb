package images

import (
	"image"
	"math"
)

// scaleYCbCr is draw.BiLinear.Scale of pixels as a JPEG has them, with the same bits. That computes a pixel's colour again
// for each column that it adds to, and has numbers of the whole picture in memory. This computes each colour once, and
// has the rows that a new row needs. from is within src, to within dst.
func scaleYCbCr(dst *image.RGBA, to image.Rectangle, src *image.YCbCr, from image.Rectangle) {
	across, down := weigh(to.Dx(), from.Dx()), weigh(to.Dy(), from.Dy())
	s := scaler{src: src, from: from, across: across, colours: make([]float64, 3*from.Dx()), rows: make([][]float64, most(down))}
	for i := range s.rows {
		s.rows[i] = make([]float64, 3*to.Dx())
	}
	sums := make([]float64, 3*to.Dx())
	for y, w := range down {
		clear(sums)
		opaque := 0.0
		for i, weight := range w.of {
			opaque += weight
			add(sums, s.row(w.first+i), weight)
		}
		out := dst.Pix[dst.PixOffset(to.Min.X, to.Min.Y+y):]
		for x := range to.Dx() {
			in, pixel := sums[3*x:][:3], out[4*x:][:4]
			for c, v := range in {
				pixel[c] = toByte(float64(min(v, opaque) * w.inverse))
			}
			pixel[3] = toByte(float64(opaque * w.inverse))
		}
	}
}

// add adds a row times its weight.
func add(sums, row []float64, weight float64) {
	for len(sums) >= 4 && len(row) >= 4 {
		to, v := (*[4]float64)(sums), (*[4]float64)(row)
		to[0] += float64(v[0] * weight)
		to[1] += float64(v[1] * weight)
		to[2] += float64(v[2] * weight)
		to[3] += float64(v[3] * weight)
		sums, row = sums[4:], row[4:]
	}
	for i := range sums {
		sums[i] += float64(row[i] * weight)
	}
}

// weighed is the old columns, or rows, that a new one is the mean of.
type weighed struct {
	first   int
	of      []float64 // the weights, from first on
	inverse float64   // 1 over their sum
}

// weigh has a triangle of weights about the place of each new column, or row. It is as wide as two new ones, or old ones
// if these are wider.
func weigh(count, old int) []weighed {
	list := make([]weighed, count)
	scale := float64(old) / float64(count)
	width, narrow := 1.0, 1.0
	if scale > 1 {
		width, narrow = scale, 1/scale
	}
	for i := range list {
		middle := float64((float64(i)+0.5)*scale) - 0.5
		w, sum := &list[i], 0.0
		for at := max(0, int(math.Floor(middle-width))); at < min(old, int(math.Ceil(middle+width))); at++ {
			weight := 1 - math.Abs(float64((middle-float64(at))*narrow))
			if weight <= 0 {
				continue
			}
			if w.of == nil {
				w.first = at
			}
			sum += weight
			w.of = append(w.of, weight)
		}
		w.inverse = 1 / sum
	}
	return list
}

// most is the most columns, or rows, that a new one has.
func most(list []weighed) (n int) {
	for i := range list {
		n = max(n, len(list[i].of))
	}
	return n
}

// scaler scales rows, each of which is needed at most until a later one takes its place.
type scaler struct {
	src     *image.YCbCr
	from    image.Rectangle
	across  []weighed
	colours []float64   // of a row: red, green and blue of each pixel, from 0 to 65,535
	rows    [][]float64 // scaled to the new columns, from 0 to 1: row y is in y modulo their number
	next    int         // the first row that is not there
}

// row is an old row in new columns. Rows are asked for in order, and again from at most one row less than rows has before
// the last.
func (s *scaler) row(y int) []float64 {
	out := s.rows[y%len(s.rows)]
	if y < s.next {
		return out
	}
	s.next = y + 1
	s.colour(y)
	for x := range s.across {
		w := &s.across[x]
		var r, g, b float64
		at := 3 * w.first
		for _, weight := range w.of {
			in := (*[3]float64)(s.colours[at:])
			r += float64(in[0] * weight)
			g += float64(in[1] * weight)
			b += float64(in[2] * weight)
			at += 3
		}
		inverse := w.inverse / 0xffff
		out[3*x], out[3*x+1], out[3*x+2] = r*inverse, g*inverse, b*inverse
	}
	return out
}

// colour computes the colours of an old row, as color.YCbCr.RGBA does.
func (s *scaler) colour(y int) {
	y += s.from.Min.Y
	luma := s.src.Y[s.src.YOffset(s.from.Min.X, y):][:s.from.Dx()]
	pixels := pixelsAcross(s.src.SubsampleRatio)
	row := s.src.COffset(s.src.Rect.Min.X, y) - s.src.Rect.Min.X/pixels
	for i := 0; i < len(luma); { // the pixels of one place of Cb and Cr
		at := (s.from.Min.X + i) / pixels
		end := min((at+1)*pixels-s.from.Min.X, len(luma))
		at += row
		cb, cr := int(s.src.Cb[at])-128, int(s.src.Cr[at])-128
		red, green, blue := 91881*cr, 22554*cb+46802*cr, 116130*cb
		for ; i < end; i++ {
			v, out := int(luma[i])*0x10101, (*[3]float64)(s.colours[3*i:])
			out[0] = float64(min(max((v+red)>>8, 0), 0xffff))
			out[1] = float64(min(max((v-green)>>8, 0), 0xffff))
			out[2] = float64(min(max((v+blue)>>8, 0), 0xffff))
		}
	}
}

// pixelsAcross is how many pixels of a row have their Cb and Cr in common.
func pixelsAcross(r image.YCbCrSubsampleRatio) int {
	switch r {
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		return 2
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		return 4
	}
	return 1
}

// toByte is the upper byte of a number from 0 to 1, in 16 bits.
func toByte(v float64) byte {
	return byte(min(max(int32(float64(0xffff*v)+0.5), 0), 0xffff) >> 8)
}
