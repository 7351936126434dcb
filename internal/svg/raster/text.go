package raster

import (
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"

	"github.com/berth-ml/berth/internal/svg"
)

// fonts are those of the program. Go's are about as wide as Helvetica.
type fonts struct{ regular, bold *sfnt.Font }

func openFonts() (f fonts, err error) {
	if f.regular, err = sfnt.Parse(goregular.TTF); err != nil {
		return f, err
	}
	f.bold, err = sfnt.Parse(gobold.TTF)
	return f, err
}

// unit is the size that letters are loaded in. What they are drawn in is a part of it.
const unit = 1000

// letter is a glyph, and where it begins.
type letter struct {
	glyph sfnt.GlyphIndex
	x     float64
}

// Text draws a text, as wide as SVG has it: layouts count on that.
func (c *canvas) Text(t svg.Text) {
	f := c.fonts.regular
	if t.Bold {
		f = c.fonts.bold
	}
	letters, wide, err := lay(f, t.Words)
	if err != nil && c.err == nil {
		c.err = err
	}
	if wide == 0 || c.err != nil {
		return
	}
	across, size := t.Wide()/wide*c.scale, t.Size
	if size == 0 {
		size = svg.TextSize
	}
	up := size / unit * c.scale
	left := -t.Wide() * c.scale * []float64{0, 0.5, 1}[t.Anchor]
	sin, cos := math.Sincos(t.Turn * math.Pi / 180)
	place := func(p svg.Point) svg.Point {
		x, y := left+p.X*across, p.Y*up
		return svg.Point{X: t.X*c.scale + x*cos - y*sin, Y: t.Y*c.scale + x*sin + y*cos}
	}
	var lines [][]svg.Point
	for _, l := range letters {
		path, err := outline(f, l)
		if err != nil {
			c.err = err
			return
		}
		for _, line := range flatten(path, 1) {
			for i := range line {
				line[i] = place(line[i])
			}
			lines = append(lines, line)
		}
	}
	with := t.Color
	if with == "" {
		with = svg.Ink
	}
	c.fill(lines, with, 255)
}

// lay puts letters side by side, and returns the width of all.
func lay(f *sfnt.Font, words string) (list []letter, wide float64, err error) {
	var b sfnt.Buffer
	for _, r := range words {
		g, err := f.GlyphIndex(&b, r)
		if err != nil {
			return nil, 0, err
		}
		a, err := f.GlyphAdvance(&b, g, fixed.I(unit), font.HintingNone)
		if err != nil {
			return nil, 0, err
		}
		list, wide = append(list, letter{g, wide}), wide+float64(a)/64
	}
	return list, wide, nil
}

// outline is a letter's outline, in units.
func outline(f *sfnt.Font, l letter) (path svg.Path, err error) {
	var b sfnt.Buffer
	steps, err := f.LoadGlyph(&b, l.glyph, fixed.I(unit), nil)
	if err != nil {
		return nil, err
	}
	var at svg.Point
	place := func(p fixed.Point26_6) svg.Point {
		return svg.Point{X: l.x + float64(p.X)/64, Y: float64(p.Y) / 64}
	}
	for _, s := range steps {
		a, to := place(s.Args[0]), place(s.Args[0])
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			path = append(path, svg.Step{Op: 'M', A: to})
		case sfnt.SegmentOpLineTo:
			path = append(path, svg.Step{Op: 'L', A: to})
		case sfnt.SegmentOpQuadTo:
			to = place(s.Args[1])
			path = append(path, svg.Step{Op: 'C', A: between(at, a), B: between(to, a), C: to})
		case sfnt.SegmentOpCubeTo:
			to = place(s.Args[2])
			path = append(path, svg.Step{Op: 'C', A: a, B: place(s.Args[1]), C: to})
		}
		at = to
	}
	return path, nil
}

// between is two thirds of the way from one point to another: a quadratic curve is a cubic one
// that is pulled so far.
func between(from, to svg.Point) svg.Point {
	return svg.Point{X: from.X + (to.X-from.X)*2/3, Y: from.Y + (to.Y-from.Y)*2/3}
}
