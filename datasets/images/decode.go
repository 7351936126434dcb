package images

import (
	"fmt"
	"image"

	"golang.org/x/image/draw"

	"github.com/berth-ml/berth/internal/panics"
)

// The values of Options.Fit: what is done to a picture of another shape.
const (
	Crop    = "crop"    // its middle is taken
	Pad     = "pad"     // black is added on both sides
	Stretch = "stretch" // it is stretched
)

// Options say what becomes of a picture.
type Options struct {
	Height, Width int // from 1 to MostSide
	Channels      int // 1: grey, 3: red, green and blue
	Fit           string
}

// Bytes is the size of what Decode makes.
func (o *Options) Bytes() int { return o.Channels * o.Height * o.Width }

// Decode decodes a picture of which h is the header into dst, which has o.Bytes: a byte for each pixel of a
// channel, row by row, one channel after the other. Transparent pixels are over white.
func Decode(b []byte, h Header, o Options, dst []byte) (err error) {
	defer func() { // the decoders are others', and the file may be hostile
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: a %s that cannot be read: panic: %s", ErrImage, h.Format, panics.Text(r))
		}
	}()
	if h.Format == "planes" {
		if h.Height == o.Height && h.Width == o.Width && o.Channels == 3 {
			copy(dst, b)
			return nil
		}
		o.write(o.scale(planar(b, h.Height, h.Width), turn{}), turn{}, dst)
		return nil
	}
	m, err := decoders[h.Format].decode(b)
	if err != nil {
		return broken(h.Format, err)
	}
	if size := m.Bounds(); int64(size.Dx())*int64(size.Dy()) > MostPixels || size.Empty() {
		return fmt.Errorf("%w: a %s whose header says %d×%d pixels, and which has %d×%d", ErrImage, h.Format, h.Width, h.Height, size.Dx(), size.Dy())
	}
	m = onCanvas(m, h)
	if from, to := o.fitted(m.Bounds(), h.turn); scaling(from.Size(), to.Size()) > mostScaling {
		return fmt.Errorf("%w: %d×%d pixels are too long to be brought to %d×%d by fit %s: cut the image", ErrImage, h.Width, h.Height, o.Width, o.Height, o.Fit)
	}
	o.write(o.scale(m, h.turn), h.turn, dst)
	return nil
}

// onCanvas is the whole of a GIF whose first picture covers a part of it. The rest is transparent.
func onCanvas(m image.Image, h Header) image.Image {
	canvas := image.Rect(0, 0, h.Width, h.Height)
	if h.Format != "gif" || m.Bounds() == canvas {
		return m
	}
	out := image.NewRGBA(canvas)
	draw.Draw(out, m.Bounds(), m, m.Bounds().Min, draw.Src)
	return out
}

// mostScaling bounds the bytes of scaling.
const mostScaling = 2 << 30

// scaling is the bytes that [draw.Kernel.Scale] takes to bring a picture to another size: four numbers of 64 bits for each new
// column of each old row, and weights of two neighbours for each old row and column.
func scaling(from, to image.Point) int64 {
	if from == to {
		return 0
	}
	return 32 * (int64(to.X)*int64(from.Y) + int64(max(from.X, to.X)) + int64(max(from.Y, to.Y)))
}

// planar is pixels in planes as an image.
func planar(b []byte, height, width int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	n := height * width
	for i := range n {
		m.Pix[4*i], m.Pix[4*i+1], m.Pix[4*i+2], m.Pix[4*i+3] = b[i], b[n+i], b[2*n+i], 255
	}
	return m
}

// unturned is the size before an image is turned.
func (o *Options) unturned(t turn) image.Rectangle {
	if t.across {
		return image.Rect(0, 0, o.Height, o.Width)
	}
	return image.Rect(0, 0, o.Width, o.Height)
}

// fitted is the part of an image that is used, and where it goes, before it is turned.
func (o *Options) fitted(from image.Rectangle, t turn) (_, to image.Rectangle) {
	to = o.unturned(t)
	switch o.Fit {
	case Crop:
		from = middle(from, to.Dx(), to.Dy())
	case Pad:
		to = middle(to, from.Dx(), from.Dy())
	}
	return from, to
}

// scale brings an image to the size, before it is turned.
func (o *Options) scale(m image.Image, t turn) *image.RGBA {
	from, to := o.fitted(m.Bounds(), t)
	out := image.NewRGBA(o.unturned(t))
	if to != out.Rect {
		for i := 3; i < len(out.Pix); i += 4 {
			out.Pix[i] = 255
		}
	}
	switch coded, ok := m.(*image.YCbCr); {
	case from.Size() == to.Size():
		draw.Draw(out, to, m, from.Min, draw.Src)
	case ok:
		scaleYCbCr(out, to, coded, from)
	default:
		draw.BiLinear.Scale(out, to, m, from, draw.Src, nil)
	}
	return out
}

// middle is the largest rectangle in the middle of r that has the shape of width by height.
func middle(r image.Rectangle, width, height int) image.Rectangle {
	w, h := r.Dx(), r.Dy()
	if w*height > width*h {
		w = max(1, (width*h+height/2)/height)
	} else {
		h = max(1, (height*w+width/2)/width)
	}
	at := r.Min.Add(image.Pt((r.Dx()-w)/2, (r.Dy()-h)/2))
	return image.Rectangle{at, at.Add(image.Pt(w, h))}
}

// write writes the pixels of an image that has the size, turned, by channel.
func (o *Options) write(m *image.RGBA, t turn, dst []byte) {
	n := o.Height * o.Width
	for y := range o.Height {
		for x := range o.Width {
			sx, sy := x, y
			if t.right {
				sx = o.Width - 1 - x
			}
			if t.down {
				sy = o.Height - 1 - y
			}
			if t.across {
				sx, sy = sy, sx
			}
			p := m.Pix[sy*m.Stride+4*sx:][:4]
			white := 255 - p[3] // colours are multiplied by their opacity already
			r, g, b := p[0]+white, p[1]+white, p[2]+white
			i := y*o.Width + x
			if o.Channels == 1 {
				dst[i] = luma(r, g, b)
				continue
			}
			dst[i], dst[n+i], dst[2*n+i] = r, g, b
		}
	}
}

// luma is the grey of a colour, as in JPEG.
func luma(r, g, b byte) byte {
	return byte((19595*uint32(r) + 38470*uint32(g) + 7471*uint32(b) + 1<<15) >> 16)
}
