package images

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"golang.org/x/image/draw"
)

// Pictures of any sampling and part are scaled to the bits of draw.BiLinear.
func TestScaleYCbCr(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	side := func() int { return 1 + random.IntN(1+random.IntN(120)) }
	for range 400 {
		corner := image.Pt(random.IntN(9), random.IntN(9))
		src := image.NewYCbCr(image.Rectangle{corner, corner.Add(image.Pt(side(), side()))}, image.YCbCrSubsampleRatio(random.IntN(6)))
		for _, plane := range [][]byte{src.Y, src.Cb, src.Cr} {
			for i := range plane {
				plane[i] = byte(random.IntN(256))
			}
		}
		from := src.Rect
		from.Min.X += random.IntN(from.Dx())
		from.Max.Y -= random.IntN(from.Dy())
		got := image.NewRGBA(image.Rect(0, 0, side()+2, side()+3))
		to := image.Rect(1, 2, got.Rect.Max.X-1, got.Rect.Max.Y-1)
		if to.Size() == from.Size() {
			continue
		}
		want := image.NewRGBA(got.Rect)
		draw.BiLinear.Scale(want, to, src, from, draw.Src, nil)
		if scaleYCbCr(got, to, src, from); !bytes.Equal(got.Pix, want.Pix) {
			t.Fatalf("seed %d: %v of %v in %v, to %v: %v, want %v", seed, from, src.Rect, src.SubsampleRatio, to, got.Pix, want.Pix)
		}
	}
}
