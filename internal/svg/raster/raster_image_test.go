package raster

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"testing"

	"github.com/berth-ml/berth/internal/svg"
)

// An image fills its box, its pixels as squares.
func TestImage(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 2, 1))
	m.Set(0, 0, color.RGBA{255, 0, 0, 255})
	m.Set(1, 0, color.RGBA{0, 0, 255, 255})
	p := svg.Picture{Width: 30, Height: 20}
	p.Image(svg.Box{X: 5, Y: 5, W: 20, H: 10}, m)
	var b bytes.Buffer
	if err := WritePNG(&b, &p, 2); err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[image.Point]color.RGBA{{10, 10}: {255, 0, 0, 255}, {29, 29}: {255, 0, 0, 255}, {30, 10}: {0, 0, 255, 255}, {49, 29}: {0, 0, 255, 255}, {50, 10}: {255, 255, 255, 255}} {
		if c := color.RGBAModel.Convert(got.At(at.X, at.Y)); c != want {
			t.Errorf("pixel %v is %v, want %v", at, c, want)
		}
	}
}
