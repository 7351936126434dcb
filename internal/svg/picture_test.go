package svg

import (
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strings"
	"testing"
)

// An image is inside the file, pixel for pixel.
func TestImage(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 2, 3))
	m.Set(1, 2, color.RGBA{1, 2, 3, 255})
	p := Picture{Width: 50, Height: 50}
	p.Image(Box{X: 5, Y: 6, W: 20, H: 30}, m)
	found := regexp.MustCompile(`<image [^>]*x="5" y="6" width="20" height="30" href="data:image/png;base64,([^"]*)"/>`).FindStringSubmatch(p.String())
	if found == nil {
		t.Fatalf("no image in %s", p.String())
	}
	got, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(found[1])))
	if err != nil || got.Bounds() != m.Bounds() || color.RGBAModel.Convert(got.At(1, 2)) != (color.RGBA{1, 2, 3, 255}) {
		t.Errorf("%v, %v", got, err)
	}
}
