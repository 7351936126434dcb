package svg

import (
	"math"
	"strconv"
)

// Color is "#rrggbb"; "" is none.
type Color string

// The colours of all pictures.
const (
	White Color = "#ffffff"
	Ink   Color = "#1f2328" // texts
	Faint Color = "#57606a" // texts of less weight
	Edge  Color = "#8c959f" // lines around and between things
	Frame Color = "#d0d7de" // lines around groups of things
	Grid  Color = "#e6e9ed" // lines behind a chart
	Limit Color = "#cf222e" // what must not be crossed, or costs
)

// Okabe's and Ito's colours, which people who see few colours tell apart. Their yellow is
// missing: white swallows it.
const (
	Blue      Color = "#0072b2"
	Vermilion Color = "#d55e00"
	Green     Color = "#009e73"
	Purple    Color = "#cc79a7"
	Orange    Color = "#e69f00"
	Sky       Color = "#56b4e9"
	Grey      Color = "#8c959f"
)

// Series are the colours of things that are compared, in the order of their use.
var Series = []Color{Blue, Vermilion, Green, Purple, Orange, Sky, "#444444"}

// Tints are light colours for areas with text in them.
var Tints = []Color{"#eaf2fb", "#fdf1e3", "#eaf6ec", "#f3edf8", "#fdecec", "#e8f6f7"}

// Widths of lines; those of frames and grids are 1.
const (
	ThinLine = 1.5 // arrows, and curves behind others
	BoldLine = 2.0 // curves, limits, and what stands out
)

// Style is how a path is drawn.
type Style struct {
	Fill    Color // "": not filled
	Stroke  Color // "": no line
	Width   float64
	Dash    []float64 // lengths of dash and gap, in turns
	Opacity float64   // 0 is opaque
	Hint    string    // shown while the pointer is on the path
}

// LineWidth is the width of the line: 1 if no width is given.
func (s Style) LineWidth() float64 {
	if s.Width == 0 {
		return 1
	}
	return s.Width
}

// RGB are a colour's parts, from 0 to 255.
func (c Color) RGB() (r, g, b uint8) {
	v, err := strconv.ParseUint(string(c[1:]), 16, 24)
	if err != nil || len(c) != 7 {
		panic("BUG: no colour: " + c)
	}
	return uint8(v >> 16), uint8(v >> 8), uint8(v)
}

// Mixed is a colour with a share of another, from 0 to 1.
func (c Color) Mixed(other Color, share float64) Color {
	r, g, b := c.RGB()
	r2, g2, b2 := other.RGB()
	text := []byte("#")
	for _, pair := range [][2]uint8{{r, r2}, {g, g2}, {b, b2}} {
		v := math.Round(float64(pair[0]) + (float64(pair[1])-float64(pair[0]))*share)
		if v < 16 {
			text = append(text, '0')
		}
		text = strconv.AppendUint(text, uint64(v), 16)
	}
	return Color(text)
}

// Shade is the colour of a cell for a part from 0 to 1: the darker, the larger. Its square
// root spreads small parts, so that few errors among many are seen, too.
func Shade(part float64) Color { return Color("#f4f7fa").Mixed("#003f6b", math.Sqrt(part)) }

// On is the colour of text on a ground, black or white: the one with more contrast.
func On(ground Color) Color {
	const black Color = "#000000"
	if Contrast(black, ground) >= Contrast(White, ground) {
		return black
	}
	return White
}

// Contrast is that of two colours by WCAG 2, from 1 to 21. Text needs 4.5.
func Contrast(a, b Color) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance is a colour's brightness by WCAG 2, from 0 to 1.
func (c Color) luminance() float64 {
	r, g, b := c.RGB()
	linear := func(v uint8) float64 {
		if s := float64(v) / 255; s > 0.04045 {
			return math.Pow((s+0.055)/1.055, 2.4)
		}
		return float64(v) / 255 / 12.92
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
