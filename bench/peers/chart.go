package main

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// inks are the families' colours, Berth's the strongest.
var inks = map[string]color.Color{
	berthName: color.RGBA{R: 0x1b, G: 0x5e, B: 0x9b, A: 0xff},
	torchName: color.RGBA{R: 0xee, G: 0x4c, B: 0x2c, A: 0xff},
	tunedName: color.RGBA{R: 0xf5, G: 0xa5, B: 0x8f, A: 0xff},
	gomlxName: color.RGBA{R: 0x6a, G: 0xb1, B: 0x87, A: 0xff},
	llmcName:  color.RGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

// chart draws each program's median step, by workload, as so many times Berth's:
// steps of 1 ms and of 1 s fit on one axis so.
func (r report) chart(file string) error {
	p := plot.New()
	p.Title.Text = "Time of a training step, Berth = 1 (shorter is faster)"
	p.Y.Min = 0
	p.Y.Tick.Marker = plot.TickerFunc(wholes)
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var names []string
	legend := map[string]bool{}
	const barWidth = 16 * vg.Millimeter / 4
	for x, t := range targets {
		names = append(names, t.workload)
		es := r.entries(t.workload)
		for i, e := range es {
			bar, err := plotter.NewBarChart(plotter.Values{e.slower}, barWidth)
			if err != nil {
				return err
			}
			bar.Color, bar.LineStyle.Width, bar.XMin = inks[e.family], 0, float64(x)
			bar.Offset = barWidth * vg.Length(float64(i)-float64(len(es)-1)/2)
			p.Add(bar)
			if !legend[e.family] {
				legend[e.family] = true
				p.Legend.Add(e.family, bar)
			}
			p.Y.Max = max(p.Y.Max, 1.3*e.slower)
		}
	}
	p.NominalX(names...)
	return p.Save(20*vg.Centimeter, 9*vg.Centimeter, file)
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
