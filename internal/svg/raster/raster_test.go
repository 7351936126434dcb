package raster_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/svg/raster"
)

// drawn is a picture in twice its size.
func drawn(t *testing.T, p *svg.Picture) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := raster.WritePNG(&b, p, 2); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if at := img.Bounds().Size(); at != (image.Point{X: int(2 * p.Width), Y: int(2 * p.Height)}) {
		t.Fatalf("%v pixels for %g × %g", at, p.Width, p.Height)
	}
	return img
}

// is reports whether the pixel at a place of the picture has a colour.
func is(img image.Image, x, y float64, c svg.Color) bool {
	r, g, b, _ := img.At(int(2*x), int(2*y)).RGBA()
	wr, wg, wb := c.RGB()
	return uint8(r>>8) == wr && uint8(g>>8) == wg && uint8(b>>8) == wb
}

func TestShapes(t *testing.T) {
	p := &svg.Picture{Width: 100, Height: 60}
	p.Rect(svg.Box{X: 10, Y: 10, W: 20, H: 20}, 8, svg.Style{Fill: svg.Blue})
	p.Line(40, 20, 90, 20, svg.Style{Stroke: svg.Green, Width: 6, Dash: []float64{20, 10}})
	p.Path(svg.Line(svg.Point{X: 40, Y: 35}, svg.Point{X: 60, Y: 35}, svg.Point{X: 60, Y: 55}), svg.Style{Stroke: svg.Vermilion, Width: 8})
	p.Rect(svg.Box{X: 70, Y: 30, W: 20, H: 20}, 0, svg.Style{Stroke: svg.Purple, Width: 4})
	p.Mark(svg.Square, svg.Point{X: 95, Y: 55}, svg.Ink)
	p.Rect(svg.Box{X: -50, Y: -50, W: 20, H: 20}, 0, svg.Style{Fill: svg.Ink}) // outside
	p.Rect(svg.Box{X: 5, Y: 45, W: 10, H: 10}, 0, svg.Style{Fill: "#000000", Opacity: 0.2})
	img := drawn(t, p)
	for _, c := range []struct {
		what string
		x, y float64
		want svg.Color
	}{
		{"the ground", 1, 1, svg.White},
		{"in the rectangle", 20, 20, svg.Blue},
		{"at its round corner", 10.5, 10.5, svg.White},
		{"on a dash", 50, 20, svg.Green}, {"in a gap", 65, 20, svg.White}, {"on the next dash", 80, 20, svg.Green},
		{"beside the dash", 50, 24, svg.White},
		{"at the bend", 62, 33, svg.Vermilion}, {"past the bend", 60, 50, svg.Vermilion}, {"within the bend", 50, 45, svg.White},
		{"on the frame", 70.5, 40, svg.Purple}, {"at its corner", 70.5, 30.5, svg.Purple}, {"in it", 80, 40, svg.White},
		{"on the mark", 95, 55, svg.Ink},
		{"a fifth of black", 10, 50, "#cccccc"},
	} {
		if !is(img, c.x, c.y, c.want) {
			t.Errorf("%s: %v, want %s", c.what, img.At(int(2*c.x), int(2*c.y)), c.want)
		}
	}
}

// inked is the rectangle of the pixels that are not white, in those of the picture.
func inked(img image.Image) (low, high svg.Point) {
	low = svg.Point{X: 1e9, Y: 1e9}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if r, _, _, _ := img.At(x, y).RGBA(); r>>8 < 128 {
				low = svg.Point{X: min(low.X, float64(x)/2), Y: min(low.Y, float64(y)/2)}
				high = svg.Point{X: max(high.X, float64(x+1)/2), Y: max(high.Y, float64(y+1)/2)}
			}
		}
	}
	return low, high
}

// A text is as wide as layouts count with, at its anchor, also turned.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		text svg.Text
		low  svg.Point // of its box, 300 × 300, about
		high svg.Point
	}{
		{svg.Text{Words: "HHHHHHHHHH"}, svg.Point{X: 150, Y: 141}, svg.Point{X: 237, Y: 150}},
		{svg.Text{Words: "HHHHHHHHHH", Anchor: svg.Middle}, svg.Point{X: 107, Y: 141}, svg.Point{X: 193, Y: 150}},
		{svg.Text{Words: "HHHHHHHHHH", Anchor: svg.End, Bold: true}, svg.Point{X: 56, Y: 141}, svg.Point{X: 150, Y: 150}},
		{svg.Text{Words: "HHHHHHHHHH", Turn: -90}, svg.Point{X: 141, Y: 63}, svg.Point{X: 150, Y: 150}},
		{svg.Text{Words: "HHHHHHHHHH", Size: 24}, svg.Point{X: 150, Y: 133}, svg.Point{X: 323, Y: 150}},
	} {
		p := &svg.Picture{Width: 400, Height: 300}
		c.text.X, c.text.Y = 150, 150
		p.Text(c.text)
		low, high := inked(drawn(t, p))
		for _, x := range []float64{low.X - c.low.X, low.Y - c.low.Y, high.X - c.high.X, high.Y - c.high.Y} {
			if x < -3 || x > 3 {
				t.Errorf("%+v: from %v to %v, want %v to %v", c.text, low, high, c.low, c.high)
				break
			}
		}
	}
	p := &svg.Picture{Width: 50, Height: 50}
	p.Text(svg.Text{X: 10, Y: 10})
	p.Text(svg.Text{X: 10, Y: 30, Words: "例 \x00"}) // no letters of the font
	drawn(t, p)
}
