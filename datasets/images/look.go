package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"path"
	"slices"
	"strings"

	"golang.org/x/image/webp"

	"github.com/berth-ml/berth/internal/units"
)

// The bounds of a picture.
const (
	MostPixels = 1 << 26   // 67,108,864, such as 8,192 by 8,192
	MostBytes  = 256 << 20 // of its file
	MostSide   = 4096      // of what Decode makes of it
	mostScans  = 100       // of a JPEG, each of which goes over all pixels. Encoders write about 10
)

// ErrImage is about a file that is no picture, or none that can be read.
var ErrImage = errors.New("no image")

// endings are those of files that are pictures.
var endings = []string{".png", ".jpg", ".jpeg", ".gif", ".webp"}

// Named reports whether a file's name says that it is a picture.
func Named(name string) bool { return slices.Contains(endings, strings.ToLower(path.Ext(name))) }

// Endings lists the endings of such names.
func Endings() string { return strings.Join(endings, ", ") }

// Header describes a picture before it is decoded.
type Header struct {
	Format        string // png, jpeg, gif, webp or planes
	Height, Width int    // as it is looked at, once it is turned
	Grey          bool   // it has no colours
	turn          turn
	progressive   bool
}

// Planes is the Header of pixels that are no file: the bytes of one channel after the other, three of them, row by
// row.
func Planes(height, width int) Header { return Header{Format: "planes", Height: height, Width: width} }

// Memory is a bound of the bytes that [Decode] takes beside the file.
func (h *Header) Memory(o Options) int64 {
	stored := image.Rect(0, 0, h.Width, h.Height)
	if h.turn.across {
		stored = image.Rect(0, 0, h.Height, h.Width)
	}
	from, to := o.fitted(stored, h.turn)
	perPixel := int64(16) // two copies of 16 bits in four channels, as an interlaced PNG has them
	if h.progressive {
		perPixel = 24 // four channels of coefficients, the planes, and their colours
	}
	return perPixel*int64(h.Height)*int64(h.Width) + min(scaling(from.Size(), to.Size()), mostScaling) + 4*int64(o.Height)*int64(o.Width)
}

// decoder reads a format.
type decoder struct {
	config func([]byte) (image.Config, error)
	decode func([]byte) (image.Image, error)
	exif   func([]byte) []byte // the picture's EXIF data; nil: it has none
}

var decoders = map[string]decoder{
	"png": {
		func(b []byte) (image.Config, error) { return png.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) (image.Image, error) { return png.Decode(bytes.NewReader(b)) },
		pngExif,
	},
	"jpeg": {
		func(b []byte) (image.Config, error) { return jpeg.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(b)) },
		func(b []byte) []byte { exif, _ := jpegSegments(b); return exif },
	},
	"gif": {
		func(b []byte) (image.Config, error) { return gif.DecodeConfig(bytes.NewReader(b)) },
		func(b []byte) (image.Image, error) { return gif.Decode(bytes.NewReader(b)) },
		func([]byte) []byte { return nil },
	},
	"webp": {
		webpConfig,
		func(b []byte) (image.Image, error) { return webp.Decode(bytes.NewReader(b)) },
		func(b []byte) []byte { return webpChunk(b, "EXIF") },
	},
}

// formatOf tells a format by the first bytes, whatever the file's name is; "" if it is none.
func formatOf(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "png"
	case bytes.HasPrefix(b, []byte{0xff, 0xd8}):
		return "jpeg"
	case bytes.HasPrefix(b, []byte("GIF8")):
		return "gif"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "webp"
	}
	return ""
}

// Look reads the header of a picture. It decodes no pixels.
func Look(b []byte) (h Header, err error) {
	h.Format = formatOf(b)
	if h.Format == "" {
		return h, fmt.Errorf("%w: %s", ErrImage, looksLike(b))
	}
	d := decoders[h.Format]
	c, err := d.config(b)
	if err != nil {
		return h, broken(h.Format, err)
	}
	if c.Width < 1 || c.Height < 1 {
		return h, fmt.Errorf("%w: a %s of %d×%d pixels", ErrImage, h.Format, c.Width, c.Height)
	}
	if int64(c.Width)*int64(c.Height) > MostPixels {
		return h, fmt.Errorf("%w: %s×%s pixels are more than %s, the most that an image may have: make it smaller",
			ErrImage, units.Thousands(c.Width), units.Thousands(c.Height), units.Thousands(MostPixels))
	}
	h.Height, h.Width = c.Height, c.Width
	h.Grey = c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model
	if h.Format == "jpeg" {
		_, h.progressive = jpegSegments(b)
		if n := jpegScans(b); n > mostScans {
			return h, fmt.Errorf("%w: a jpeg that goes over its pixels %s times, more than %d: save it again with another program", ErrImage, units.Thousands(n), mostScans)
		}
	}
	if h.turn = orientation(d.exif(b)); h.turn.across {
		h.Height, h.Width = h.Width, h.Height
	}
	return h, nil
}

// looksLike says what a file is that is no picture.
func looksLike(b []byte) string {
	switch {
	case len(b) == 0:
		return "the file is empty"
	case !slices.Contains(b[:min(len(b), 512)], 0):
		return "the file is a text, or of a format other than PNG, JPEG, GIF and WebP"
	}
	return "the file is of a format other than PNG, JPEG, GIF and WebP"
}

// broken is the error of a picture that a decoder refuses.
func broken(format string, err error) error {
	text := err.Error()
	if strings.Contains(text, "EOF") {
		text = "the file ends early: copy or download it again"
	}
	return fmt.Errorf("%w: a %s that cannot be read: %s", ErrImage, format, text)
}

// jpegSegments finds the EXIF data, and whether the picture is progressive, among the segments before the
// pixels.
func jpegSegments(b []byte) (exif []byte, progressive bool) {
	for at := 2; at+4 <= len(b) && b[at] == 0xff; {
		kind := b[at+1]
		switch {
		case kind == 0xff: // filling
			at++
			continue
		case kind == 0xda:
			return exif, progressive
		case kind == 0x01 || kind >= 0xd0 && kind <= 0xd8:
			at += 2
			continue
		case kind == 0xc2:
			progressive = true
		}
		n := int(binary.BigEndian.Uint16(b[at+2:]))
		if n < 2 || at+2+n > len(b) {
			return exif, progressive
		}
		if data := b[at+4 : at+2+n]; kind == 0xe1 && exif == nil && bytes.HasPrefix(data, []byte("Exif\x00\x00")) {
			exif = data[6:]
		}
		at += 2 + n
	}
	return exif, progressive
}

// jpegScans counts the scans. Like the decoder, it passes over all that is no segment.
func jpegScans(b []byte) (n int) {
	for at := 2; ; {
		skip := bytes.IndexByte(b[min(at, len(b)):], 0xff)
		if at += skip; skip < 0 || at+4 > len(b) {
			return n
		}
		switch kind := b[at+1]; {
		case kind == 0xff: // filling
			at++
		case kind == 0x00 || kind == 0x01 || kind >= 0xd0 && kind <= 0xd8:
			at += 2
		case kind == 0xd9: // the end
			return n
		default:
			if kind == 0xda {
				n++
			}
			at += 2 + int(binary.BigEndian.Uint16(b[at+2:]))
		}
	}
}

// pngExif finds the EXIF data of a PNG.
func pngExif(b []byte) []byte {
	for at := 8; at+12 <= len(b); {
		n := int64(binary.BigEndian.Uint32(b[at:]))
		if n > int64(len(b)-at-12) {
			return nil
		}
		if string(b[at+4:at+8]) == "eXIf" {
			return b[at+8 : at+8+int(n)]
		}
		at += 12 + int(n)
	}
	return nil
}

// webpChunk finds a chunk of a WebP by its name.
func webpChunk(b []byte, name string) []byte {
	for at := 12; at+8 <= len(b); {
		n := int64(binary.LittleEndian.Uint32(b[at+4:]))
		if n > int64(len(b)-at-8) {
			return nil
		}
		if string(b[at:at+4]) == name {
			return b[at+8 : at+8+int(n)]
		}
		at += 8 + int(n+n%2)
	}
	return nil
}

// webpConfig is the size of a WebP: of the picture inside, too, which is decoded whatever the canvas says.
func webpConfig(b []byte) (image.Config, error) {
	c, err := webp.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return c, err
	}
	width, height := c.Width, c.Height
	if d := webpChunk(b, "VP8 "); len(d) >= 10 {
		width, height = int(binary.LittleEndian.Uint16(d[6:])&0x3fff), int(binary.LittleEndian.Uint16(d[8:])&0x3fff)
	} else if d := webpChunk(b, "VP8L"); len(d) >= 5 {
		bits := binary.LittleEndian.Uint32(d[1:])
		width, height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	}
	if width != c.Width || height != c.Height {
		return c, fmt.Errorf("its canvas is %d×%d, and its picture %d×%d", c.Width, c.Height, width, height)
	}
	return c, nil
}
