package charts

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of what is not a curve.
var (
	ink   = color.NRGBA{0x33, 0x33, 0x33, 0xff}
	faint = color.NRGBA{0x66, 0x66, 0x66, 0xff}
	lines = color.NRGBA{0xe3, 0xe6, 0xea, 0xff}
)

// palette is Okabe's and Ito's colours, without the yellow, which white swallows:
// people who see few colours tell them apart.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // green
	{0xcc, 0x79, 0xa7, 0xff}, // purple
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x44, 0x44, 0x44, 0xff}, // grey
}

// typeface is in the program; programs that show an SVG have it, or one of the
// same widths.
var typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// textStyle is a text of a size in points.
func textStyle(size vg.Length, c color.Color) text.Style {
	f := typeface
	f.Size = size
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler}
}

// newPlot is an empty panel.
func newPlot(title, x string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.Title.TextStyle, p.Title.Padding = title, textStyle(12, ink), 6
	p.Title.TextStyle.Font.Weight = xfont.WeightBold
	p.Title.TextStyle.XAlign, p.Title.TextStyle.YAlign = text.XCenter, text.YTop
	p.X.Label.Text = x
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		rotation := a.Tick.Label
		a.Tick.Label = textStyle(10, faint)
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = rotation.XAlign, rotation.YAlign
		align := a.Label.TextStyle
		a.Label.TextStyle = textStyle(10, faint)
		a.Label.TextStyle.Rotation, a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign = align.Rotation, align.XAlign, align.YAlign
		a.Label.Padding = 4
		a.LineStyle.Color, a.LineStyle.Width = color.NRGBA{0xb0, 0xb6, 0xbd, 0xff}, 0.8
		a.Tick.LineStyle, a.Tick.Length = a.LineStyle, 3
	}
	p.X.Padding, p.Y.Padding = 0, 0
	return p
}

// grid is the lines at the ticks.
func grid() *plotter.Grid {
	g := plotter.NewGrid()
	for _, s := range []*draw.LineStyle{&g.Horizontal, &g.Vertical} {
		s.Color, s.Width, s.Dashes = lines, 0.6, nil
	}
	return g
}

// shown is a text of at most n characters.
func shown(s string, n int) string {
	r := []rune(strings.ToValidUTF8(s, "?"))
	for i, c := range r {
		if c < ' ' || c == 0x7f {
			r[i] = ' '
		}
	}
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// number is a number in few characters: 12, 1.5k, 0.25, 3e-05.
func number(v float64) string {
	switch a := math.Abs(v); {
	case v == 0:
		return "0"
	case a >= 1e15 || a < 1e-4:
		return fmt.Sprintf("%.3g", v)
	case a >= 1e9:
		return trimmed(v/1e9) + "G"
	case a >= 1e6:
		return trimmed(v/1e6) + "M"
	case a >= 1e4:
		return trimmed(v/1e3) + "k"
	}
	return trimmed(v)
}

// trimmed is a number to six digits, without zeros at the end.
func trimmed(v float64) string { return fmt.Sprintf("%.6g", v) }
