package charts

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is panels below a title and a legend.
type figure struct {
	title  string
	legend []entry
	panels []*plot.Plot
	square bool // the only panel is as high as wide
}

// entry is a line of the legend with its text.
type entry struct {
	style draw.LineStyle
	mark  draw.GlyphDrawer // nil: none
	text  string
}

// The sizes of a figure, in points.
const (
	panelWidth, panelHeight = 350, 260
	aloneWidth, aloneHeight = 640, 400 // of the only panel
	squareSide              = 540
	inPanel, inSquare       = 20, 44 // labels of classes along the axis of a panel, and of a square
	border, between         = 14, 22
	titleHeight, rowHeight  = 24, 18
	sample                  = 22 // length of a line in the legend
	dpi                     = 192
)

// figureOf is the figure of runs.
func figureOf(title string, runs []*history, subjects []subject, v view, cells *matrix) *figure {
	f := &figure{title: title, legend: legendOf(runs, subjects)}
	v.marks = len(runs) > len(palette)
	for _, s := range subjects {
		f.panels = append(f.panels, v.panel(s, runs))
	}
	if cells != nil {
		room := inPanel
		if len(f.panels) == 0 {
			room, f.square = inSquare, true
		}
		f.panels = append(f.panels, cells.panel(room))
	}
	return f
}

// legendOf names the curves: the parts of the data of one run, or the runs.
func legendOf(runs []*history, subjects []subject) (list []entry) {
	var steps, train, val bool
	for _, s := range subjects {
		for _, h := range runs {
			trained, validated := s.train(h) != nil, s.val(h) != nil
			train, val = train || trained, val || validated
			steps = steps || s.steps(h) != nil && (trained || validated)
		}
	}
	l := lookOf(0, len(runs))
	if len(runs) > 1 {
		for i, h := range runs {
			x := lookOf(i, len(runs))
			if len(runs) <= len(palette) {
				x.mark = nil
			}
			list = append(list, entry{draw.LineStyle{Color: x.val, Width: 1.8}, x.mark, shown(h.name, 60)})
		}
		l.steps, l.train, l.val = color.NRGBA{0x44, 0x44, 0x44, 0x70}, ink, ink
	}
	add := func(have bool, style draw.LineStyle, text string) {
		if have {
			list = append(list, entry{style, nil, text})
		}
	}
	add(steps, draw.LineStyle{Color: l.steps, Width: 1}, "each step")
	add(train, draw.LineStyle{Color: l.train, Width: 1.6, Dashes: l.dashes}, "training")
	add(val, draw.LineStyle{Color: l.val, Width: 1.8}, "validation")
	return list
}

// rows and columns of the panels, and the size of one.
func (f *figure) shape() (rows, columns int, w, h vg.Length) {
	switch {
	case f.square:
		return 1, 1, squareSide, squareSide
	case len(f.panels) == 1:
		return 1, 1, aloneWidth, aloneHeight
	}
	columns = 2
	if len(f.panels) != 2 && len(f.panels) != 4 {
		columns = 3
	}
	return (len(f.panels) + columns - 1) / columns, columns, panelWidth, panelHeight
}

// size is that of the figure.
func (f *figure) size() (w, h vg.Length) {
	rows, columns, pw, ph := f.shape()
	w = 2*border + vg.Length(columns)*pw + vg.Length(columns-1)*between
	h = 2*border + vg.Length(rows)*ph + vg.Length(rows-1)*between + f.head(w)
	return w, h
}

// head is the height of the title and the legend in a figure of a width.
func (f *figure) head(w vg.Length) vg.Length {
	return titleHeight + vg.Length(len(f.legendRows(w)))*rowHeight + 8
}

// legendRows cuts the legend into rows that fit.
func (f *figure) legendRows(w vg.Length) (rows [][]entry) {
	left := vg.Length(-1)
	for _, e := range f.legend {
		need := e.width()
		if left < need {
			rows, left = append(rows, nil), w-2*border
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		left -= need
	}
	return rows
}

// width is that of a line of the legend, its text and the gap behind it.
func (e entry) width() vg.Length { return sample + 6 + textStyle(10.5, ink).Width(e.text) + 18 }

// draw draws the figure.
func (f *figure) draw(c draw.Canvas) {
	c.FillPolygon(color.White, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}})
	style := textStyle(14, ink)
	style.Font.Weight, style.XAlign, style.YAlign = xfont.WeightBold, text.XLeft, text.YTop
	c.FillText(style, vg.Point{X: c.Min.X + border, Y: c.Max.Y - border}, f.title)
	y := c.Max.Y - border - titleHeight - rowHeight/2
	for _, row := range f.legendRows(c.Max.X - c.Min.X) {
		x := c.Min.X + border
		for _, e := range row {
			e.draw(c, vg.Point{X: x, Y: y})
			x += e.width()
		}
		y -= rowHeight
	}
	f.drawPanels(draw.Crop(c, border, -border, border, -border-f.head(c.Max.X-c.Min.X)))
}

// drawPanels draws the panels, with their axes aligned.
func (f *figure) drawPanels(c draw.Canvas) {
	rows, columns, _, _ := f.shape()
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
		copy(grid[i], f.panels[i*columns:min(len(f.panels), (i+1)*columns)])
	}
	tiles := plot.Align(grid, draw.Tiles{Rows: rows, Cols: columns, PadX: between, PadY: between}, c)
	for i, row := range grid {
		for j, p := range row {
			if p != nil {
				p.Draw(tiles[i][j])
			}
		}
	}
}

func (e entry) draw(c draw.Canvas, at vg.Point) {
	c.StrokeLine2(e.style, at.X, at.Y, at.X+sample, at.Y)
	if e.mark != nil {
		c.DrawGlyph(draw.GlyphStyle{Color: e.style.Color, Radius: 2.4, Shape: e.mark}, vg.Point{X: at.X + sample/2, Y: at.Y})
	}
	style := textStyle(10.5, ink)
	style.XAlign, style.YAlign = text.XLeft, text.YCenter
	c.FillText(style, vg.Point{X: at.X + sample + 6, Y: at.Y}, e.text)
}

// write writes the figure as "svg" or "png".
func (f *figure) write(w io.Writer, format string) error {
	width, height := f.size()
	switch format {
	case "svg":
		c := vgsvg.New(width, height)
		f.draw(draw.New(c))
		var b bytes.Buffer
		if _, err := c.WriteTo(&b); err != nil {
			return err
		}
		_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
		return err
	case "png":
		c := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
		f.draw(draw.New(c))
		_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
		return err
	}
	return fmt.Errorf("BUG: no format %s", format)
}
