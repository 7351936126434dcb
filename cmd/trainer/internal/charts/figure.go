package charts

import (
	"io"

	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/svg/raster"
)

// figure is panels below a title and a legend.
type figure struct {
	title  string
	legend []svg.Entry
	panels []*panel
	square bool // the only panel is as high as wide
}

// The sizes of a figure, in pixels.
const (
	panelWidth, panelHeight = 400, 300
	aloneWidth, aloneHeight = 740, 460 // of the only panel
	squareSide              = 600
	inPanel, inSquare       = 16, 30 // labels of classes along the axis of a panel, and of a square
	between                 = 24
	pngScale                = 2 // pixels of a PNG for one of the figure
)

// figureOf is the figure of runs.
func figureOf(title string, runs []*history, subjects []subject, v view, cells *matrix) *figure {
	f := &figure{title: title, legend: legendOf(runs, subjects)}
	v.marks = len(runs) > len(svg.Series)
	for _, s := range subjects {
		f.panels = append(f.panels, v.panel(s, runs))
	}
	if cells != nil {
		f.legend = append(f.legend, shades()...)
		room := inPanel
		if len(f.panels) == 0 {
			room, f.square = inSquare, true
		}
		f.panels = append(f.panels, cells.panel(room))
	}
	return f
}

// legendOf names the curves: the parts of the data of one run, or the runs.
func legendOf(runs []*history, subjects []subject) (list []svg.Entry) {
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
			if len(runs) <= len(svg.Series) {
				x.mark = svg.NoMark
			}
			list = append(list, svg.Entry{Words: shown(h.name, 60), Style: x.val, Mark: x.mark})
		}
		l.steps, l.train, l.val = faint(svg.Ink), dashed(svg.Ink), solid(svg.Ink)
	}
	add := func(have bool, style svg.Style, words string) {
		if have {
			list = append(list, svg.Entry{Words: words, Style: style})
		}
	}
	add(steps, l.steps, "each step")
	add(train, l.train, "training")
	add(val, l.val, "validation")
	return list
}

// shape is the columns of the panels, and the size of one.
func (f *figure) shape() (columns int, w, h float64) {
	switch {
	case f.square:
		return 1, squareSide, squareSide
	case len(f.panels) == 1:
		return 1, aloneWidth, aloneHeight
	case len(f.panels) == 2, len(f.panels) == 4:
		return 2, panelWidth, panelHeight
	}
	return 3, panelWidth, panelHeight
}

// picture draws the figure.
func (f *figure) picture() *svg.Picture {
	columns, w, h := f.shape()
	p := &svg.Picture{Title: f.title, Width: 2*svg.Margin + float64(columns)*(w+between) - between}
	p.Heading()
	top := p.Legend(svg.Margin, svg.HeadingHigh, p.Width-2*svg.Margin, f.legend...) + 12
	left := 0.0
	for _, x := range f.panels {
		left = max(left, x.LeftRoom())
	}
	for i, x := range f.panels {
		x.Box = svg.Box{X: svg.Margin + float64(i%columns)*(w+between), Y: top + float64(i/columns)*(h+between), W: w, H: h}
		x.Left = left
		x.draw(p.Axes(x.Axes))
		p.Height = x.Box.Y + h + svg.Margin
	}
	return p
}

// write writes the figure as "svg" or "png".
func (f *figure) write(w io.Writer, format string) error {
	if format == "png" {
		return raster.WritePNG(w, f.picture(), pngScale)
	}
	_, err := io.WriteString(w, f.picture().String())
	return err
}
