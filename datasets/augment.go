package datasets

import (
	"math"
	"sync"

	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// Augment is a random change to each image that trains.
type Augment struct {
	Name string  // flip, crop, rotate, erase or, at the end, mixup
	By   float64 // see the functions of these names
}

// augmenter changes images that were read, all of one shape. Pixels that come from outside are 0, the mean.
type augmenter struct {
	changes                 []Augment
	mixup                   float64 // parameter of the shares; 0: images are not mixed
	channels, height, width int
	scratch                 sync.Pool // of *[]float32 with room for an image
}

// newAugmenter changes images of that metadata; nil: there are no changes.
func newAugmenter(changes []Augment, m shape.Meta) *augmenter {
	if len(changes) == 0 {
		return nil
	}
	a := &augmenter{changes: changes, channels: m.Shape[0], height: m.Shape[1], width: m.Shape[2]}
	if last := changes[len(changes)-1]; last.Name == "mixup" {
		a.changes, a.mixup = changes[:len(changes)-1], last.By
	}
	a.scratch.New = func() any {
		b := make([]float32, m.Elems())
		return &b
	}
	return a
}

// apply changes an image in place. All of it follows from the key, which is of the sample and its epoch.
func (a *augmenter) apply(pixels []float32, key rng.Key) {
	other := a.scratch.Get().(*[]float32)
	defer a.scratch.Put(other)
	for i, x := range a.changes {
		w := key.At(uint64(i), 0)
		switch x.Name {
		case "flip":
			a.flip(pixels, w)
		case "crop":
			copy(*other, pixels)
			a.crop(pixels, *other, int(x.By), w)
		case "rotate":
			copy(*other, pixels)
			a.rotate(pixels, *other, x.By, w)
		case "erase":
			a.erase(pixels, x.By, w, key.At(uint64(i), 1))
		}
	}
}

// below draws a whole number from 0 to n-1.
func below(w uint32, n int) int { return int(uint64(w) * uint64(n) >> 32) }

// rowOf is row y of a channel.
func (a *augmenter) rowOf(pixels []float32, channel, y int) []float32 {
	return pixels[(channel*a.height+y)*a.width:][:a.width]
}

// flip swaps left and right in half of the images.
func (a *augmenter) flip(pixels []float32, w [4]uint32) {
	if w[0]>>31 == 0 {
		return
	}
	for y := range a.channels * a.height {
		row := a.rowOf(pixels, 0, y)
		for i, j := 0, len(row)-1; i < j; i, j = i+1, j-1 {
			row[i], row[j] = row[j], row[i]
		}
	}
}

// crop moves an image by up to so many pixels, down or up and right or left.
func (a *augmenter) crop(dst, src []float32, by int, w [4]uint32) {
	dx, dy := below(w[0], 2*by+1)-by, below(w[1], 2*by+1)-by
	for channel := range a.channels {
		for y := range a.height {
			row := a.rowOf(dst, channel, y)
			clear(row)
			if from := y - dy; from >= 0 && from < a.height && max(dx, -dx) < a.width {
				copy(row[max(0, dx):], a.rowOf(src, channel, from)[max(0, -dx):a.width-max(0, dx)])
			}
		}
	}
}

// rotate turns an image about its middle, by up to so many degrees to either side. A pixel is the mean of the four about its
// place, weighed by their nearness. Products are rounded before they are added, alike on all machines.
func (a *augmenter) rotate(dst, src []float32, by float64, w [4]uint32) {
	angle := (2*rng.Float64(w[0], w[1]) - 1) * by * (math.Pi / 180)
	sin, cos := math.Sincos(angle)
	midX, midY := float64(a.width-1)/2, float64(a.height-1)/2
	plane := a.height * a.width
	for y := range a.height {
		for x := range a.width {
			fromX := midX + float64(cos*(float64(x)-midX)) + float64(sin*(float64(y)-midY))
			fromY := midY - float64(sin*(float64(x)-midX)) + float64(cos*(float64(y)-midY))
			left, top := int(math.Floor(fromX)), int(math.Floor(fromY))
			right, down := fromX-float64(left), fromY-float64(top)
			at := y*a.width + x
			for channel := range a.channels {
				dst[channel*plane+at] = 0
			}
			for i, weight := range [4]float64{(1 - right) * (1 - down), right * (1 - down), (1 - right) * down, right * down} {
				sx, sy := left+i&1, top+i>>1
				if sx < 0 || sy < 0 || sx >= a.width || sy >= a.height {
					continue
				}
				from := sy*a.width + sx
				for channel := range a.channels {
					dst[channel*plane+at] += float32(weight * float64(src[channel*plane+from]))
				}
			}
		}
	}
}

// erase clears a rectangle, with a probability. It has 2% to 33% of the pixels, and a side up to 3.3 times as long as
// the other.
func (a *augmenter) erase(pixels []float32, probability float64, w, more [4]uint32) {
	if rng.Float64(w[0], w[1]) >= probability {
		return
	}
	const least, most, longest = 0.02, 0.33, 3.3
	area := (least + float64((most-least)*rng.Float64(w[2], w[3]))) * float64(a.height*a.width)
	ratio := math.Exp((2*rng.Float64(more[0], more[1]) - 1) * math.Log(longest))
	height := min(max(1, int(math.Round(math.Sqrt(area*ratio)))), a.height)
	width := min(max(1, int(math.Round(math.Sqrt(area/ratio)))), a.width)
	top, left := below(more[2], a.height-height+1), below(more[3], a.width-width+1)
	for channel := range a.channels {
		for y := top; y < top+height; y++ {
			clear(a.rowOf(pixels, channel, y)[left : left+width])
		}
	}
}

// augmentKey is the key of the keys of samples.
func (p *Part) augmentKey() rng.Key { return rng.Named(p.seed, "augment") }

// sampleKey is the key of a row of the table that is read at a cursor. The row and the epoch decide it, so a sample is the same for any
// place in a batch, reader and start.
func (p *Part) sampleKey(c Cursor, row int, key rng.Key) rng.Key {
	epoch := c.Epoch
	if p.of > 0 {
		epoch = 0
	}
	bits := key.At(uint64(row), uint32(epoch))
	return rng.Key{Lo: bits[0], Hi: bits[1]}
}

// fillAugmented is fill of a part whose samples vary, for a batch of n. With mixup, sample j is mixed with another of the batch, which
// follows from the epoch and the place of the batch in it.
func (p *Part) fillAugmented(c Cursor, n int, rows []Rows, dst [][]byte) {
	a, order, key := p.table.augment, p.epochOrder(c.Epoch), p.augmentKey()
	partner := rng.NewPermutation(n, keyed(p.orderKey("mixup", c.Epoch), c.Index))
	if p.of > 0 {
		partner = rng.NewPermutation(n, p.orderKey("mixup", 0))
	}
	other := a.scratch.Get().(*[]float32)
	defer a.scratch.Put(other)
	input, target := &p.table.columns[0], &p.table.columns[1]
	classes := shape.View[int32](target.data)
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			row := p.row(c.Index+j, order)
			own := p.sampleKey(c, row, key)
			pixels := p.table.place32(dst[0], len(*other), j)
			input.fill(row, shape.Bytes(pixels))
			a.apply(pixels, own)
			if p.soft == nil {
				shape.View[int32](dst[1])[j] = classes[row]
				continue
			}
			second, share := p.row(c.Index+partner.At(j), order), mixupShare(own, a.mixup)
			input.fill(second, shape.Bytes(*other))
			a.apply(*other, p.sampleKey(c, second, key))
			for i, v := range *other {
				pixels[i] = float32(share*float64(pixels[i])) + float32((1-share)*float64(v))
			}
			shares := p.table.place32(dst[1], p.soft.Meta.Elems(), j)
			clear(shares)
			shares[classes[row]] += float32(share)
			shares[classes[second]] += float32(1 - share)
		}
	}
}

// place32 is the memory of sample j, of n numbers.
func (*table) place32(dst []byte, n, j int) []float32 { return shape.View[float32](dst)[j*n : (j+1)*n] }

// mixupShare draws the share of an image that is mixed with another: of the distribution beta(a, a), by Jöhnk's way, with logarithms since the
// powers may be too small for a number.
func mixupShare(key rng.Key, a float64) float64 {
	const stream = 1 << 31 // apart from those of the changes
	for i := uint32(0); ; i++ {
		w := key.At(0, stream+i)
		x := math.Log(rng.Float64(w[0], w[1])+1e-300) / a
		y := math.Log(rng.Float64(w[2], w[3])+1e-300) / a
		if math.Exp(x)+math.Exp(y) > 1 {
			continue
		}
		return 1 / (1 + math.Exp(y-x))
	}
}
