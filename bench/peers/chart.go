package main

import (
	"errors"
	"image/color"
	"math"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// inks are the colours of the families; Berth's is the strongest.
var inks = map[string]color.Color{
	berthName: color.RGBA{R: 0x1b, G: 0x5e, B: 0x9b, A: 0xff},
	bf16Name:  color.RGBA{R: 0x7f, G: 0xb2, B: 0xdd, A: 0xff},
	torchName: color.RGBA{R: 0xee, G: 0x4c, B: 0x2c, A: 0xff},
	tunedName: color.RGBA{R: 0xf5, G: 0xa5, B: 0x8f, A: 0xff},
	gomlxName: color.RGBA{R: 0x6a, G: 0xb1, B: 0x87, A: 0xff},
	llmcName:  color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

const (
	barWidth     = 6.5 * vg.Millimeter
	legendHeight = 7 * vg.Millimeter
)

// chart draws each program's median step, by workload, in units of Berth's: so
// steps of 1 ms and of 1 s fit on one axis. The time in ms is above each bar.
func (r report) chart(file string) error {
	p, legend, err := r.bars()
	if err != nil {
		return err
	}
	c, err := draw.NewFormattedCanvas(24*vg.Centimeter, 10.5*vg.Centimeter, "svg")
	if err != nil {
		return err
	}
	all := draw.New(c)
	all.FillPolygon(color.White, []vg.Point{all.Min, {X: all.Max.X, Y: all.Min.Y}, all.Max, {X: all.Min.X, Y: all.Max.Y}})
	title := p.Title.TextStyle
	all.FillText(title, vg.Point{X: all.Center().X, Y: all.Max.Y - vg.Millimeter}, p.Title.Text)
	p.Title.Text = ""
	below := draw.Crop(all, 0, 0, 0, -title.Height("T")-2*vg.Millimeter)
	drawLegend(draw.Crop(below, 0, 0, below.Max.Y-below.Min.Y-legendHeight, 0), legend)
	p.Draw(draw.Crop(below, 0, 0, 0, -legendHeight))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = c.WriteTo(f)
	return errors.Join(err, f.Close())
}

// drawLegend draws the families side by side, in the middle of a row.
func drawLegend(row draw.Canvas, families []family) {
	const gap = vg.Centimeter // wide: viewers may show the text in a wider font
	var ls []plot.Legend
	width := -gap
	for _, f := range families {
		l := plot.NewLegend()
		l.Left, l.Top = true, true
		l.Add(" "+f.name, f.bar)
		ls = append(ls, l)
		width += l.Rectangle(row).Size().X + gap
	}
	at := (row.Size().X - width) / 2
	for _, l := range ls {
		l.Draw(draw.Crop(row, at, 0, 0, 0))
		at += l.Rectangle(row).Size().X + gap
	}
}

// family is an entry of the legend.
type family struct {
	name string
	bar  *plotter.BarChart
}

// bars makes the plot, and the entries of its legend.
func (r report) bars() (*plot.Plot, []family, error) {
	p := plot.New()
	p.Title.Text = "Time of a training step, Berth = 1 (shorter is faster)"
	p.Y.Min = 0
	p.Y.Tick.Marker = plot.TickerFunc(wholes)
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	p.Add(grid)
	var names []string
	var legend []family
	for x, t := range targets {
		names = append(names, t.workload+" (ms)")
		es := r.entries(t.workload)
		for i, e := range es {
			at := barWidth * vg.Length(float64(i)-float64(len(es)-1)/2)
			bar, err := addBar(p, e, float64(x), at)
			if err != nil {
				return nil, nil, err
			}
			if !slices.ContainsFunc(legend, func(f family) bool { return f.name == e.family }) {
				legend = append(legend, family{e.family, bar})
			}
			p.Y.Max = max(p.Y.Max, 1.2*e.slower)
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return p, legend, nil
}

// addBar adds a bar with its time above it, at a distance off from x.
func addBar(p *plot.Plot, e entry, x float64, off vg.Length) (*plotter.BarChart, error) {
	bar, err := plotter.NewBarChart(plotter.Values{e.slower}, barWidth)
	if err != nil {
		return nil, err
	}
	bar.Color, bar.LineStyle.Width, bar.XMin, bar.Offset = inks[e.family], 0, x, off
	text, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: e.slower}}, Labels: []string{ms(e.median)}})
	if err != nil {
		return nil, err
	}
	text.TextStyle[0].Font.Size = vg.Points(7)
	text.TextStyle[0].XAlign = draw.XCenter
	text.Offset = vg.Point{X: off, Y: vg.Points(1)}
	p.Add(bar, text)
	return bar, nil
}

// wholes marks whole numbers, about twelve at most.
func wholes(least, most float64) []plot.Tick {
	step := math.Max(1, math.Ceil((most-least)/12))
	var ts []plot.Tick
	for y := math.Ceil(least); y <= most; y += step {
		ts = append(ts, plot.Tick{Value: y, Label: strconv.Itoa(int(y))})
	}
	return ts
}
