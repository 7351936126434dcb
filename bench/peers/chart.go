package main

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// inks are the families' colours, Berth's the strongest.
var inks = map[string]color.Color{
	berthName: color.RGBA{R: 0x1b, G: 0x5e, B: 0x9b, A: 0xff},
	bf16Name:  color.RGBA{R: 0x7f, G: 0xb2, B: 0xdd, A: 0xff},
	torchName: color.RGBA{R: 0xee, G: 0x4c, B: 0x2c, A: 0xff},
	tunedName: color.RGBA{R: 0xf5, G: 0xa5, B: 0x8f, A: 0xff},
	gomlxName: color.RGBA{R: 0x6a, G: 0xb1, B: 0x87, A: 0xff},
	llmcName:  color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

const barWidth = 5 * vg.Millimeter

// chart draws each program's median step, by workload, as so many times Berth's:
// steps of 1 ms and of 1 s fit on one axis so. The time stands above each bar.
func (r report) chart(file string) error {
	p := plot.New()
	p.Title.Text = "Time of a training step, Berth = 1 (shorter is faster)"
	p.Y.Min = 0
	p.Y.Tick.Marker = plot.TickerFunc(wholes)
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Millimeter
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	p.Add(grid)
	var names []string
	legend := map[string]bool{}
	for x, t := range targets {
		names = append(names, t.workload+" (ms)")
		es := r.entries(t.workload)
		for i, e := range es {
			at := barWidth * vg.Length(float64(i)-float64(len(es)-1)/2)
			bar, err := addBar(p, e, float64(x), at)
			if err != nil {
				return err
			}
			if !legend[e.family] {
				legend[e.family] = true
				p.Legend.Add(" "+e.family, bar)
			}
			p.Y.Max = max(p.Y.Max, 1.2*e.slower)
		}
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	return p.Save(24*vg.Centimeter, 10*vg.Centimeter, file)
}

// addBar draws a bar with its time above it, off from x.
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

// wholes marks whole numbers, at most some twelve of them.
func wholes(least, most float64) []plot.Tick {
	step := math.Max(1, math.Ceil((most-least)/12))
	var ts []plot.Tick
	for y := math.Ceil(least); y <= most; y += step {
		ts = append(ts, plot.Tick{Value: y, Label: strconv.Itoa(int(y))})
	}
	return ts
}
