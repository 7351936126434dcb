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
	mixing                  sync.Pool // of *mixing
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
	a.mixing.New = func() any {
		return &mixing{first: make([]float32, m.Elems()), other: make([]float32, m.Elems())}
	}
	return a
}

// read writes the changed image of a row of pixels. All of it follows from the key, which is of the sample and its epoch.
func (a *augmenter) read(dst []float32, c *column, row int, key rng.Key) {
	other := a.scratch.Get().(*[]float32)
	defer a.scratch.Put(other)
	d := draft{augmenter: a, view: a.whole(), at: dst, spare: *other}
	d.bytes, d.scale = c.data[c.offset+row*c.stride:][:c.size], c.scale
	for i, x := range a.changes {
		w := key.At(uint64(i), 0)
		switch x.Name {
		case "flip":
			d.view.flip(a.width, w)
		case "crop":
			d.view.crop(a.height, a.width, int(x.By), w)
		case "rotate":
			d.draw()
			a.rotate(d.spare, d.at, x.By, w)
			d.at, d.spare = d.spare, d.at
		case "erase":
			d.draw()
			a.erase(d.at, x.By, w, key.At(uint64(i), 1))
		}
	}
	if d.draw(); &d.at[0] != &dst[0] {
		copy(dst, d.at)
	}
}

// draft is an image that is being changed: a view of bytes, or of the numbers in at once bytes is nil.
type draft struct {
	*augmenter
	view      view
	bytes     []byte
	scale     [][256]float32
	at, spare []float32
}

// draw has the pixels of the view in at.
func (d *draft) draw() {
	switch {
	case d.bytes != nil:
		d.drawBytes(d.view, d.at, d.bytes, d.scale)
		d.bytes = nil
	case d.view != d.whole():
		d.drawNumbers(d.view, d.spare, d.at)
		d.at, d.spare = d.spare, d.at
	}
	d.view = d.whole()
}

// below draws a whole number from 0 to n-1.
func below(w uint32, n int) int { return int(uint64(w) * uint64(n) >> 32) }

// rowOf is row y of a channel.
func (a *augmenter) rowOf(pixels []float32, channel, y int) []float32 {
	return pixels[(channel*a.height+y)*a.width:][:a.width]
}

// rotate turns an image about its middle, by up to so many degrees to either side. A pixel is the mean of the four about its
// place, weighed by their nearness. Products are rounded before they are added, alike on all machines.
func (a *augmenter) rotate(dst, src []float32, by float64, w [4]uint32) {
	angle := (2*rng.Float64(w[0], w[1]) - 1) * by * (math.Pi / 180)
	sin, cos := math.Sincos(angle)
	midX, midY := float64(a.width-1)/2, float64(a.height-1)/2
	plane := a.height * a.width
	for y := range a.height {
		acrossY, alongY := float64(sin*(float64(y)-midY)), float64(cos*(float64(y)-midY))
		for x := range a.width {
			fromX := midX + float64(cos*(float64(x)-midX)) + acrossY
			fromY := midY - float64(sin*(float64(x)-midX)) + alongY
			left, top := floor(fromX), floor(fromY)
			right, down := fromX-float64(left), fromY-float64(top)
			w00, w01, w10, w11 := (1-right)*(1-down), right*(1-down), (1-right)*down, right*down
			at := y*a.width + x
			if uint(left) >= uint(a.width-1) || uint(top) >= uint(a.height-1) {
				a.edge(dst[at:], src, left, top, [4]float64{w00, w01, w10, w11})
				continue
			}
			for from := top*a.width + left; at < len(dst); at, from = at+plane, from+plane { // each channel
				upper, lower := src[from:][:2], src[from+a.width:][:2]
				v := 0 + float32(w00*float64(upper[0])) // 0 + -0 is 0
				v += float32(w01 * float64(upper[1]))
				v += float32(w10 * float64(lower[0]))
				dst[at] = v + float32(w11*float64(lower[1]))
			}
		}
	}
}

// floor is math.Floor of a number whose whole part is an int.
func floor(v float64) int {
	n := int(v)
	if float64(n) > v {
		n--
	}
	return n
}

// edge is rotate of the pixel dst[0], some of whose four pixels, from column left and row top on, may be outside.
func (a *augmenter) edge(dst, src []float32, left, top int, weights [4]float64) {
	plane := a.height * a.width
	for channel := range a.channels {
		dst[channel*plane] = 0
	}
	for i, weight := range weights {
		sx, sy := left+i&1, top+i>>1
		if sx < 0 || sy < 0 || sx >= a.width || sy >= a.height {
			continue
		}
		from := sy*a.width + sx
		for channel := range a.channels {
			dst[channel*plane] += float32(weight * float64(src[channel*plane+from]))
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

// sampleKey is the key of a row of the table that is read at a cursor. The row and the epoch decide it, so a sample is the same for
// any place in a batch, reader and start.
func (p *Part) sampleKey(c Cursor, row int, key rng.Key) rng.Key {
	epoch := c.Epoch
	if p.of > 0 {
		epoch = 0
	}
	bits := key.At(uint64(row), uint32(epoch))
	return rng.Key{Lo: bits[0], Hi: bits[1]}
}

// fillAugmented is fill of a part whose samples vary, for a batch of n.
func (p *Part) fillAugmented(c Cursor, n int, rows []Rows, dst [][]byte) {
	a := p.table.augment
	x := augmented{Part: p, at: c, order: p.epochOrder(c.Epoch), key: p.augmentKey(), size: a.channels * a.height * a.width, dst: dst}
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			x.read(j, x.pixels(j))
			if p.soft == nil {
				shape.View[int32](dst[1])[j] = x.class(j)
			}
		}
	}
	if p.soft != nil {
		x.mix(n, rows)
	}
}

// augmented is a batch whose samples vary, read at a cursor into dst.
type augmented struct {
	*Part
	at    Cursor
	order epochOrder
	key   rng.Key
	size  int // numbers of an image
	dst   [][]byte
}

// row is the table's row of sample j.
func (x *augmented) row(j int) int { return x.Part.row(x.at.Index+j, x.order) }

// read writes the changed image of sample j.
func (x *augmented) read(j int, pixels []float32) {
	row := x.row(j)
	x.table.augment.read(pixels, &x.table.columns[0], row, x.sampleKey(x.at, row, x.key))
}

// pixels is the place of sample j.
func (x *augmented) pixels(j int) []float32 { return x.table.place32(x.dst[0], x.size, j) }

func (x *augmented) class(j int) int32 { return shape.View[int32](x.table.columns[1].data)[x.row(j)] }

// mix mixes the samples of some rows, which were read, each with another of the batch of n. Which one follows from the
// epoch and the place of the batch in it. A sample goes before the one that it is mixed with, which then still is as it
// was read. Only where another went first, or is of no row, it is read again.
func (x *augmented) mix(n int, rows []Rows) {
	a := x.table.augment
	partner := rng.NewPermutation(n, keyed(x.orderKey("mixup", x.at.Epoch), x.at.Index))
	if x.of > 0 {
		partner = rng.NewPermutation(n, x.orderKey("mixup", 0))
	}
	m := a.mixing.Get().(*mixing)
	defer a.mixing.Put(m)
	m.begin(n, rows)
	for _, r := range rows {
		for first := r.From; first < r.To; first++ {
			if !m.waits[first] {
				continue
			}
			copy(m.first, x.pixels(first))
			for j := first; m.waits[j]; {
				m.waits[j] = false
				k := partner.At(j)
				other := m.other
				switch {
				case m.waits[k]:
					other = x.pixels(k)
				case k == first:
					other = m.first
				default:
					x.read(k, other)
				}
				x.mixInto(j, k, other)
				j = k
			}
		}
	}
}

// mixInto mixes sample j with sample k, whose image is other.
func (x *augmented) mixInto(j, k int, other []float32) {
	share := mixupShare(x.sampleKey(x.at, x.row(j), x.key), x.table.augment.mixup)
	pixels := x.pixels(j)
	for i, v := range other {
		pixels[i] = float32(share*float64(pixels[i])) + float32((1-share)*float64(v))
	}
	shares := x.table.place32(x.dst[1], x.soft.Meta.Elems(), j)
	clear(shares)
	shares[x.class(j)] += float32(share)
	shares[x.class(k)] += float32(1 - share)
}

// mixing is the memory of mix.
type mixing struct {
	first, other []float32 // images
	waits        []bool    // by sample: it was read, and is not mixed
}

// begin has some rows of a batch of n wait.
func (m *mixing) begin(n int, rows []Rows) {
	m.waits = append(m.waits[:0], make([]bool, n)...)
	for _, r := range rows {
		for j := r.From; j < r.To; j++ {
			m.waits[j] = true
		}
	}
}

// place32 is the memory of sample j, of n numbers.
func (*table) place32(dst []byte, n, j int) []float32 { return shape.View[float32](dst)[j*n : (j+1)*n] }

// mixupShare draws the share of an image that is mixed with another: of the distribution beta(a, a), by Jöhnk's way, with
// logarithms since the powers may be too small for a number.
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
