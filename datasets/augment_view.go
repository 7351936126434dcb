package datasets

import "slices"

// view says where the pixels of a changed image come from. Flips and crops only change the view: pixels move once for all
// of them, and in their 8 bits if nothing else came before.
type view struct {
	// Rows from top to before bottom, and columns from left to before right, come from the image. The others are 0.
	top, bottom, left, right int
	down                     int  // row y comes from row y+down
	across                   int  // column x comes from column x+across; mirrored: from column across-x
	mirrored                 bool // left and right have changed places
}

// whole is the view of an image as it is.
func (a *augmenter) whole() view { return view{bottom: a.height, right: a.width} }

// flip swaps left and right in half of the images.
func (v *view) flip(width int, w [4]uint32) {
	if w[0]>>31 == 0 {
		return
	}
	if v.left, v.right = width-v.right, width-v.left; v.mirrored {
		v.across -= width - 1
	} else {
		v.across += width - 1
	}
	v.mirrored = !v.mirrored
}

// crop moves an image by up to so many pixels, down or up and right or left.
func (v *view) crop(height, width, by int, w [4]uint32) {
	dx, dy := below(w[0], 2*by+1)-by, below(w[1], 2*by+1)-by
	v.top, v.bottom, v.down = moved(v.top, dy, height), moved(v.bottom, dy, height), v.down-dy
	v.left, v.right = moved(v.left, dx, width), moved(v.right, dx, width)
	if v.mirrored {
		dx = -dx
	}
	v.across -= dx
}

// moved is an edge that moves by so much, and stays within the image.
func moved(edge, by, size int) int { return min(max(edge+by, 0), size) }

// draw writes the pixels of a view. line writes n pixels of a channel to out, from row y on: those from column x on, or
// mirrored.
func (a *augmenter) draw(v view, dst []float32, line func(out []float32, channel, at int, mirrored bool)) {
	if v == a.whole() {
		plane := a.height * a.width
		for channel := range a.channels {
			line(dst[channel*plane:][:plane], channel, 0, false)
		}
		return
	}
	if v.top >= v.bottom || v.left >= v.right {
		clear(dst)
		return
	}
	from := v.left + v.across
	if v.mirrored {
		from = v.across - (v.right - 1)
	}
	for channel := range a.channels {
		for y := range a.height {
			row := a.rowOf(dst, channel, y)
			if y < v.top || y >= v.bottom {
				clear(row)
				continue
			}
			clear(row[:v.left])
			clear(row[v.right:])
			line(row[v.left:v.right], channel, (y+v.down)*a.width+from, v.mirrored)
		}
	}
}

// drawBytes draws an image of bytes, which read as numbers through scale.
func (a *augmenter) drawBytes(v view, dst []float32, src []byte, scale [][256]float32) {
	plane := a.height * a.width
	a.draw(v, dst, func(out []float32, channel, at int, mirrored bool) {
		in := src[channel*plane+at:][:len(out)]
		if mirrored {
			lookUpMirrored(out, in, &scale[channel])
		} else {
			lookUp(out, in, &scale[channel])
		}
	})
}

// drawNumbers draws an image of numbers.
func (a *augmenter) drawNumbers(v view, dst, src []float32) {
	plane := a.height * a.width
	a.draw(v, dst, func(out []float32, channel, at int, mirrored bool) {
		copy(out, src[channel*plane+at:][:len(out)])
		if mirrored {
			slices.Reverse(out)
		}
	})
}

// lookUp reads bytes as the numbers that they stand for. It takes eight at a time, which halves its time.
func lookUp(out []float32, in []byte, of *[256]float32) {
	for len(in) >= 8 && len(out) >= 8 {
		o, i := (*[8]float32)(out), (*[8]byte)(in)
		o[0], o[1], o[2], o[3] = of[i[0]], of[i[1]], of[i[2]], of[i[3]]
		o[4], o[5], o[6], o[7] = of[i[4]], of[i[5]], of[i[6]], of[i[7]]
		out, in = out[8:], in[8:]
	}
	for j, v := range in {
		out[j] = of[v]
	}
}

// lookUpMirrored is lookUp from the last byte to the first.
func lookUpMirrored(out []float32, in []byte, of *[256]float32) {
	for len(in) >= 8 && len(out) >= 8 {
		o, i := (*[8]float32)(out), (*[8]byte)(in[len(in)-8:])
		o[0], o[1], o[2], o[3] = of[i[7]], of[i[6]], of[i[5]], of[i[4]]
		o[4], o[5], o[6], o[7] = of[i[3]], of[i[2]], of[i[1]], of[i[0]]
		out, in = out[8:], in[:len(in)-8]
	}
	for j := range out {
		out[j] = of[in[len(in)-1-j]]
	}
}
