package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	red   = color.NRGBA{255, 0, 0, 255}
	blue  = color.NRGBA{0, 0, 255, 255}
	green = color.NRGBA{0, 255, 0, 255}
)

// halves is an image whose left half is red and whose right half is blue.
func halves(width, height int) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := red
			if x >= width/2 {
				c = blue
			}
			m.SetNRGBA(x, y, c)
		}
	}
	return m
}

func pngOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, m image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// decoded is what becomes of a file.
func decoded(t testing.TB, b []byte, o Options) ([]byte, Header) {
	t.Helper()
	h, err := Look(b)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, o.Bytes())
	if err := Decode(b, h, o, dst); err != nil {
		t.Fatal(err)
	}
	return dst, h
}

// at is the colour of a pixel.
func at(o Options, pixels []byte, x, y int) [3]byte {
	n, i := o.Height*o.Width, y*o.Width+x
	return [3]byte{pixels[i], pixels[n+i], pixels[2*n+i]}
}

// near reports whether colours differ by little, as those of JPEG do.
func near(a, b [3]byte, by int) bool {
	for i := range a {
		if d := int(a[i]) - int(b[i]); d > by || d < -by {
			return false
		}
	}
	return true
}

func TestFormats(t *testing.T) {
	m := halves(8, 6)
	wide := image.NewNRGBA64(m.Rect) // 16 bits
	flat := image.NewPaletted(m.Rect, color.Palette{red, blue})
	for y := range 6 {
		for x := range 8 {
			wide.Set(x, y, m.At(x, y))
			flat.Set(x, y, m.At(x, y))
		}
	}
	var animated bytes.Buffer
	if err := gif.EncodeAll(&animated, &gif.GIF{Image: []*image.Paletted{flat, image.NewPaletted(m.Rect, flat.Palette)}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"png": pngOf(t, m), "png 16": pngOf(t, wide), "png palette": pngOf(t, flat), "jpeg": jpegOf(t, m), "gif": animated.Bytes()}
	for _, name := range []string{"lossless", "lossy"} {
		b, err := os.ReadFile("testdata/" + name + ".webp")
		if err != nil {
			t.Fatal(err)
		}
		files["webp "+name] = b
	}
	o := Options{Height: 6, Width: 8, Channels: 3, Fit: Crop}
	for name, b := range files {
		pixels, h := decoded(t, b, o)
		if h.Height != 6 || h.Width != 8 || h.Grey || h.Format != strings.Fields(name)[0] {
			t.Errorf("%s: header %+v", name, h)
		}
		by := 0
		if name == "jpeg" || name == "webp lossy" {
			by = 40 // colours have half the pixels
		}
		if a, b := at(o, pixels, 1, 3), at(o, pixels, 6, 3); !near(a, [3]byte{255, 0, 0}, by) || !near(b, [3]byte{0, 0, 255}, by) {
			t.Errorf("%s: left %v, right %v", name, a, b)
		}
	}
}

func TestGrey(t *testing.T) {
	o := Options{Height: 4, Width: 4, Channels: 1, Fit: Stretch}
	narrow, wide := image.NewGray(image.Rect(0, 0, 4, 4)), image.NewGray16(image.Rect(0, 0, 4, 4))
	for i := range 16 {
		narrow.Pix[i] = byte(i * 16)
		wide.SetGray16(i%4, i/4, color.Gray16{uint16(i*16)<<8 | 0x80})
	}
	for name, m := range map[string]image.Image{"8 bits": narrow, "16 bits": wide} {
		pixels, h := decoded(t, pngOf(t, m), o)
		if !h.Grey || !bytes.Equal(pixels, narrow.Pix) {
			t.Errorf("%s: grey %v, pixels %v", name, h.Grey, pixels)
		}
	}
	// A colour becomes its brightness where the model knows grey alone, and grey is three equal channels otherwise.
	if pixels, _ := decoded(t, pngOf(t, halves(4, 4)), o); pixels[0] != 76 || pixels[3] != 29 {
		t.Errorf("red and blue are %d and %d in grey", pixels[0], pixels[3])
	}
	o.Channels = 3
	if pixels, _ := decoded(t, pngOf(t, narrow), o); at(o, pixels, 3, 1) != [3]byte{112, 112, 112} {
		t.Errorf("grey is %v in colour", at(o, pixels, 3, 1))
	}
}

func TestTransparentIsWhite(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	m.SetNRGBA(0, 0, color.NRGBA{255, 0, 0, 0})
	m.SetNRGBA(1, 0, color.NRGBA{0, 0, 0, 128})
	o := Options{Height: 1, Width: 2, Channels: 3, Fit: Crop}
	pixels, _ := decoded(t, pngOf(t, m), o)
	if a, b := at(o, pixels, 0, 0), at(o, pixels, 1, 0); a != [3]byte{255, 255, 255} || b != [3]byte{127, 127, 127} {
		t.Errorf("transparent is %v, half of black %v", a, b)
	}
}

func TestFit(t *testing.T) {
	m := image.NewNRGBA(image.Rect(0, 0, 40, 10))
	for y := range 10 {
		for x := range 40 {
			c := red
			switch {
			case x >= 30:
				c = blue
			case x >= 10:
				c = green
			}
			m.SetNRGBA(x, y, c)
		}
	}
	b := pngOf(t, m)
	for fit, want := range map[string][2][3]byte{ // the left end of the middle row, and the middle of the top row
		Crop: {{0, 255, 0}, {0, 255, 0}}, Stretch: {{255, 0, 0}, {0, 255, 0}}, Pad: {{255, 0, 0}, {0, 0, 0}},
	} {
		o := Options{Height: 20, Width: 20, Channels: 3, Fit: fit}
		pixels, _ := decoded(t, b, o)
		if got := [2][3]byte{at(o, pixels, 0, 10), at(o, pixels, 10, 0)}; got != want {
			t.Errorf("%s: %v, want %v", fit, got, want)
		}
	}
}

// withOrientation puts EXIF data into a JPEG.
func withOrientation(b []byte, v int, order binary.AppendByteOrder) []byte {
	exif := []byte("Exif\x00\x00II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		exif = []byte("Exif\x00\x00MM\x00*")
	}
	exif = order.AppendUint32(exif, 8)
	exif = order.AppendUint16(exif, 2)
	for _, e := range [][2]int{{0x0100, 7}, {0x0112, v}} {
		exif = order.AppendUint16(exif, uint16(e[0]))
		exif = order.AppendUint16(exif, 3)
		exif = order.AppendUint32(exif, 1)
		exif = order.AppendUint16(exif, uint16(e[1]))
		exif = append(exif, 0, 0)
	}
	out := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(exif)+2))...)
	return append(append(out, exif...), b[2:]...)
}

// Each orientation shows a corner of the stored image elsewhere.
func TestOrientation(t *testing.T) {
	const width, height = 32, 16
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.NRGBA{A: 255}
			if x < 16 && y < 8 { // the top left
				c = color.NRGBA{255, 255, 255, 255}
			}
			m.SetNRGBA(x, y, c)
		}
	}
	b := jpegOf(t, m)
	for v, corner := range []string{"", "top left", "top right", "bottom right", "bottom left", "top left", "top right", "bottom right", "bottom left"} {
		if v == 0 {
			continue
		}
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			file := withOrientation(b, v, order)
			h, err := Look(file)
			if err != nil {
				t.Fatal(err)
			}
			if across := v >= 5; h.Width != width && !across || h.Width != height && across {
				t.Errorf("orientation %d: %d×%d", v, h.Width, h.Height)
			}
			o := Options{Height: h.Height, Width: h.Width, Channels: 3, Fit: Crop}
			pixels, _ := decoded(t, file, o)
			for i, name := range []string{"top left", "top right", "bottom left", "bottom right"} {
				x, y := 2+i%2*(o.Width-5), 2+i/2*(o.Height-5)
				if white := at(o, pixels, x, y)[0] > 128; white != (name == corner) {
					t.Errorf("orientation %d (%v): %s is white: %v", v, order, name, white)
				}
			}
		}
	}
}

// pngHeader is the beginning of a PNG of a size, without pixels.
func pngHeader(width, height uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	b = binary.BigEndian.AppendUint32(b, width)
	b = binary.BigEndian.AppendUint32(b, height)
	b = append(b, 8, 2, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func TestBadFiles(t *testing.T) {
	whole := jpegOf(t, halves(64, 64))
	lossless, err := os.ReadFile("testdata/lossless.webp")
	if err != nil {
		t.Fatal(err)
	}
	// A canvas of 1×1 in front of a picture that says to be of 16,384×16,384.
	lying := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), lossless[12:]...)
	at := bytes.Index(lying, []byte("VP8L")) + 9
	binary.LittleEndian.PutUint32(lying[at:], 0x3fff|0x3fff<<14)
	binary.LittleEndian.PutUint32(lying[4:], uint32(len(lying)-8))
	for _, x := range []struct {
		name string
		file []byte
		want string
	}{
		{"huge", pngHeader(100_000, 100_000), "100,000×100,000 pixels are more than 67,108,864"},
		{"truncated", whole[:len(whole)/2], "the file ends early"},
		{"text", []byte("a text, not an image\n"), "the file is a text"},
		{"empty", nil, "the file is empty"},
		{"other", []byte("BM\x00\x00\x00"), "other than PNG, JPEG, GIF and WebP"},
		{"no pixels", pngHeader(0, 1), "non-positive dimension"},
		{"lying webp", lying, "its canvas is 1×1, and its picture 16384×16384"},
	} {
		h, err := Look(x.file)
		if err == nil {
			o := Options{Height: 8, Width: 8, Channels: 3, Fit: Crop}
			err = Decode(x.file, h, o, make([]byte, o.Bytes()))
		}
		if !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", x.name, err, x.want)
		}
	}
}

// No file makes the decoding panic, or take other pixels than its header says.
func FuzzDecode(f *testing.F) {
	f.Add(pngOf(f, halves(5, 3)))
	f.Add(withOrientation(jpegOf(f, halves(9, 7)), 6, binary.BigEndian))
	f.Add(pngHeader(3, 3))
	var b bytes.Buffer
	if err := gif.Encode(&b, halves(4, 4), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	for _, name := range []string{"lossless", "lossy"} {
		b, err := os.ReadFile("testdata/" + name + ".webp")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Look(b)
		if err != nil || h.Height*h.Width > 1<<16 { // larger ones take their time
			return
		}
		for _, fit := range []string{Crop, Pad, Stretch} {
			o := Options{Height: 5, Width: 3, Channels: 3, Fit: fit}
			if err := Decode(b, h, o, make([]byte, o.Bytes())); err != nil && !errors.Is(err, ErrImage) {
				t.Fatal(err)
			}
		}
	})
}

// A picture that is much longer than wide is refused before its scaling takes memory, and what other scaling takes is told.
func TestScalingIsBounded(t *testing.T) {
	const long = 1 << 14
	file := pngOf(t, image.NewGray(image.Rect(0, 0, 1, long)))
	h, err := Look(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o       Options
		refused bool
	}{
		{Options{1, MostSide, 1, Stretch}, true},
		{Options{1, MostSide, 1, Crop}, false},
		{Options{1, MostSide, 1, Pad}, false},
		{Options{1, MostSide / 64, 1, Stretch}, false},
	} {
		err := Decode(file, h, c.o, make([]byte, c.o.Bytes()))
		if errors.Is(err, ErrImage) != c.refused || err != nil && !strings.Contains(err.Error(), "1×16384 pixels are too long to be brought to 4096×1 by fit stretch: cut the image") {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
	for _, width := range []int{64, MostSide} {
		if got, least := h.Memory(Options{1, width, 1, Stretch}), int64(32*width*long); got < least || got > least+1<<21 {
			t.Errorf("to a width of %d: %d bytes, of which scaling takes %d", width, got, least)
		}
	}
}

// The first picture of a GIF may cover a part of it; the rest is transparent, so white.
func TestGIFThatCoversAPart(t *testing.T) {
	part := image.NewPaletted(image.Rect(4, 0, 8, 8), color.Palette{red, blue})
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{part}, Delay: []int{0}, Config: image.Config{ColorModel: part.Palette, Width: 8, Height: 8}}); err != nil {
		t.Fatal(err)
	}
	o := Options{8, 8, 3, Crop}
	pixels, _ := decoded(t, b.Bytes(), o)
	if left, right := at(o, pixels, 3, 4), at(o, pixels, 4, 4); left != [3]byte{255, 255, 255} || right != [3]byte{255, 0, 0} {
		t.Errorf("%v left, %v right", left, right)
	}
}

// A JPEG of few bytes may go over its pixels many times. What looks like a scan elsewhere is none.
func TestScansOfJPEG(t *testing.T) {
	file := jpegOf(t, halves(16, 16))
	at := bytes.Index(file, []byte{0xff, 0xda})
	scan := file[at : len(file)-2]
	many := func(n int) []byte { return slices.Concat(file[:at], bytes.Repeat(scan, n), file[len(file)-2:]) }
	if n := jpegScans(many(7)); n != 7 {
		t.Errorf("%d scans of 7", n)
	}
	if _, err := Look(many(mostScans)); err != nil {
		t.Error(err)
	}
	if _, err := Look(many(mostScans + 1)); !errors.Is(err, ErrImage) || !strings.Contains(err.Error(), "goes over its pixels 101 times, more than 100") {
		t.Error(err)
	}
	looks := bytes.Repeat([]byte{0xff, 0xda, 0, 2}, 1000)
	comment := binary.BigEndian.AppendUint16([]byte{0xff, 0xfe}, uint16(2+len(looks)))
	for _, b := range [][]byte{slices.Concat(file[:2], comment, looks, file[2:]), append(bytes.Clone(file), looks...)} {
		if n := jpegScans(b); n != 1 {
			t.Errorf("%d scans of 1", n)
		}
	}
	for n := range len(file) {
		jpegScans(file[:n]) // does not fail
	}
}

// The time to decode a file on one core, as a folder of photos has them.
func BenchmarkDecode(b *testing.B) {
	photo := image.NewRGBA(image.Rect(0, 0, 500, 375))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range photo.Pix { // smooth, with noise
		if photo.Pix[i] = byte(i/4%500/3 + i/4/500/4 + random.IntN(12)); i%4 == 3 {
			photo.Pix[i] = 255
		}
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, photo, &jpeg.Options{Quality: 90}); err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name string
		file []byte
		o    Options
	}{
		{"jpeg 500x375 to 224x224", file.Bytes(), Options{Height: 224, Width: 224, Channels: 3, Fit: Crop}},
		{"jpeg 500x375 to 64x64", file.Bytes(), Options{Height: 64, Width: 64, Channels: 3, Fit: Crop}},
		{"jpeg 500x375 as it is", file.Bytes(), Options{Height: 375, Width: 500, Channels: 3, Fit: Crop}},
		{"png 500x375 to 224x224", pngOf(b, photo), Options{Height: 224, Width: 224, Channels: 3, Fit: Crop}},
	} {
		h, err := Look(x.file)
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, x.o.Bytes())
		b.Run(x.name, func(b *testing.B) {
			b.SetBytes(int64(len(x.file)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(x.file, h, x.o, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
