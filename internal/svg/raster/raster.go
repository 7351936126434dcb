package raster

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	scaling "golang.org/x/image/draw"
	"golang.org/x/image/vector"

	"github.com/berth-ml/berth/internal/svg"
)

// WritePNG writes a picture with so many pixels for one of its own.
func WritePNG(w io.Writer, p *svg.Picture, scale float64) error {
	size := image.Rect(0, 0, int(math.Ceil(p.Width*scale)), int(math.Ceil(p.Height*scale)))
	c := &canvas{img: image.NewRGBA(size), scale: scale}
	draw.Draw(c.img, size, image.White, image.Point{}, draw.Src)
	fonts, err := openFonts()
	if err != nil {
		return err
	}
	c.fonts = fonts
	p.Draw(c)
	if c.err != nil {
		return c.err
	}
	return png.Encode(w, c.img)
}

// canvas is the pen that draws into an image.
type canvas struct {
	img   *image.RGBA
	scale float64
	fonts fonts
	err   error // the first of a text
}

// Path fills a path, and draws its line.
func (c *canvas) Path(path svg.Path, s svg.Style) {
	alpha := uint8(255)
	if s.Opacity != 0 {
		alpha = uint8(math.Round(255 * s.Opacity))
	}
	lines := flatten(path, c.scale)
	if s.Fill != "" {
		c.fill(lines, s.Fill, alpha)
	}
	if s.Stroke != "" {
		var dash []float64
		for _, d := range s.Dash {
			dash = append(dash, d*c.scale)
		}
		c.fill(stroked(dashed(lines, dash), s.LineWidth()*c.scale), s.Stroke, alpha)
	}
}

// Image scales an image into a box.
func (c *canvas) Image(b svg.Box, m image.Image) {
	at := func(v float64) int { return int(math.Round(v * c.scale)) }
	scaling.NearestNeighbor.Scale(c.img, image.Rect(at(b.X), at(b.Y), at(b.X+b.W), at(b.Y+b.H)), m, m.Bounds(), draw.Over, nil)
}

// fill fills polygons. What several of them cover, turning the same way, is filled once.
func (c *canvas) fill(polygons [][]svg.Point, with svg.Color, alpha uint8) {
	box := bounds(polygons).Intersect(c.img.Bounds())
	if box.Empty() {
		return
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	for _, p := range polygons {
		for i, at := range p {
			x, y := float32(at.X-float64(box.Min.X)), float32(at.Y-float64(box.Min.Y))
			if i == 0 {
				z.MoveTo(x, y)
			} else {
				z.LineTo(x, y)
			}
		}
		z.ClosePath()
	}
	r, g, b := with.RGB()
	z.Draw(c.img, box, image.NewUniform(color.NRGBA{r, g, b, alpha}), image.Point{})
}

// bounds is the least rectangle of pixels around polygons.
func bounds(polygons [][]svg.Point) image.Rectangle {
	low, high := svg.Point{X: math.Inf(1), Y: math.Inf(1)}, svg.Point{X: math.Inf(-1), Y: math.Inf(-1)}
	for _, p := range polygons {
		for _, at := range p {
			low = svg.Point{X: min(low.X, at.X), Y: min(low.Y, at.Y)}
			high = svg.Point{X: max(high.X, at.X), Y: max(high.Y, at.Y)}
		}
	}
	if low.X > high.X {
		return image.Rectangle{}
	}
	return image.Rect(int(math.Floor(low.X)), int(math.Floor(low.Y)), int(math.Ceil(high.X)), int(math.Ceil(high.Y)))
}
