package browser

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// pictures are those of docs/page.md, by the names of views.
var pictures = []struct {
	view, colour  string
	width, height int64
}{
	{"table", "light", 1280, 330},
	{"run", "light", 1280, 640},
	{"sweep", "dark", 1000, 700},
}

// The pictures of docs/page.md are there, and small. With -update they are made.
func TestPictures(t *testing.T) {
	size := int64(0)
	for _, p := range pictures {
		file := filepath.Join("..", "..", "..", "..", "docs", "page-"+p.view+".png")
		if *update {
			v := views[slices.IndexFunc(views, func(v view) bool { return v.name == p.view })]
			x := v.show(t)
			x.size(p.width, p.height)
			x.colour(p.colour)
			x.settled()
			small, err := paletted(run(x, chromedp.CaptureScreenshot()))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, small, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		st, err := os.Stat(file)
		if err != nil {
			t.Fatalf("%v: go test -run TestPictures -update makes it", err)
		}
		size += st.Size()
	}
	if size > 150<<10 {
		t.Errorf("the pictures have %d bytes, more than 150 KiB", size)
	}
}

// paletted is a picture in PNG with its 256 most frequent colours.
func paletted(text []byte) ([]byte, error) {
	m, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		r, g, b, _ := m.At(x, y).RGBA()
		return color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}
	}
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	var palette color.Palette
	for _, c := range colours[:min(256, len(colours))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colours {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var small bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, out)
	return small.Bytes(), err
}
