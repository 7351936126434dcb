package svg

import (
	"strings"
	"unicode"
)

// The families of fonts. Helvetica, Arial and Liberation Sans are equally wide.
const (
	sans = "Helvetica, Arial, 'Liberation Sans', sans-serif"
	mono = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
)

// Sizes of text.
const (
	TitleSize = 16.0 // of a picture
	HeadSize  = 13.0 // of a part
	TextSize  = 12.0
	SmallSize = 11.0
)

// Margin is the room around what a picture shows.
const Margin = 16.0

// Text is a line of text.
type Text struct {
	X, Y   float64 // of its base line, at Anchor
	Words  string
	Size   float64 // 0 is TextSize
	Bold   bool
	Mono   bool
	Color  Color // "" is Ink
	Anchor Anchor
	Turn   float64 // in degrees, clockwise around X, Y
	Inside bool    // it labels what is below it: the pointer sees the hint of that
	Hint   string  // shown while the pointer is on the text, such as the words that Fit has cut
}

// Head is the heading of a part.
func Head(x, y float64, words string) Text {
	return Text{X: x, Y: y, Words: words, Size: HeadSize, Bold: true}
}

// Small is a text of less weight.
func Small(x, y float64, words string) Text {
	return Text{X: x, Y: y, Words: words, Size: SmallSize, Color: Faint}
}

// At is the text with another anchor.
func (t Text) At(a Anchor) Text {
	t.Anchor = a
	return t
}

// Fit is the text cut to a room; its hint has all words then.
func (t Text) Fit(room float64) Text {
	if t.Wide() <= room {
		return t
	}
	if t.Bold {
		room /= boldness
	}
	t.Hint, t.Words = t.Words, Cut(t.Words, t.size(), room)
	return t
}

// Anchor is the part of a text that is at its X.
type Anchor int

// The anchors.
const (
	Start Anchor = iota
	Middle
	End
)

var anchors = []string{"start", "middle", "end"}

func (t Text) size() float64 {
	if t.Size == 0 {
		return TextSize
	}
	return t.Size
}

func (t Text) color() Color {
	if t.Color == "" {
		return Ink
	}
	return t.Color
}

// Wide is about the width of the text.
func (t Text) Wide() float64 {
	wide := Width(t.Words, t.size())
	if t.Bold {
		wide *= boldness
	}
	return wide
}

// boldness is how much wider bold words are, about.
const boldness = 1.09

// Width is about the width of words in the font of pictures, not bold.
func Width(words string, size float64) float64 {
	sum := 0
	for _, r := range words {
		switch {
		case r < ' ' || unicode.Is(unicode.Mn, r):
		case int(r) < ' '+len(helvetica):
			sum += helvetica[r-' ']
		case r == '·':
			sum += 333
		case r == '…', r >= 0x1100 && (r < 0x2000 || r >= 0x2190): // Asian letters, arrows, pictures
			sum += 1000
		default:
			sum += 600
		}
	}
	return float64(sum) * size / 1000
}

// helvetica are the widths of the characters from space to ~, in thousandths of the size.
var helvetica = [...]int{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
	556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
	1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
	667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
	333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
	556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
}

// Cut shortens words that are wider than a room, with an ellipsis at their end.
func Cut(words string, size, room float64) string {
	if Width(words, size) <= room {
		return words
	}
	for r := []rune(words); len(r) > 0; {
		r = r[:len(r)-1]
		if s := string(r) + "…"; Width(s, size) <= room {
			return s
		}
	}
	return ""
}

// Clean is words without what XML forbids: bytes that are no text, and control characters.
func Clean(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r == 0x7f:
			return ' '
		case r == 0xfffe || r == 0xffff:
			return '?'
		}
		return r
	}, strings.ToValidUTF8(words, "?"))
}
