package main

import (
	"os"
	"slices"

	"github.com/berth-ml/berth/internal/svg"
)

// inks are the colours of the families. A tuned or rounded variant is a lighter one.
var inks = map[string]svg.Color{
	berthName: svg.Blue,
	bf16Name:  svg.Sky,
	torchName: svg.Vermilion,
	tunedName: svg.Vermilion.Mixed(svg.White, 0.5),
	gomlxName: svg.Green,
	llmcName:  svg.Grey,
}

// The sizes of the chart, in pixels; barWide is a part of the distance between workloads.
const (
	chartWide, chartHigh = 900.0, 400.0
	barWide              = 0.18
)

// chart draws each program's median step, by workload, in units of Berth's: so
// steps of 1 ms and of 1 s fit on one axis. The time in ms is above each bar.
func (r report) chart(file string) error {
	const title = "Time of a training step, Berth = 1 (shorter is faster)"
	p := &svg.Picture{Title: title, Width: chartWide, Height: chartHigh}
	p.Heading()
	top := p.Legend(svg.Margin, svg.HeadingHigh, chartWide-2*svg.Margin, r.legend()...) + 12
	most := 0.0
	var names []svg.Tick
	list := slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return len(r.entries(t.workload)) == 0 })
	for x, t := range list {
		names = append(names, svg.Tick{At: float64(x), Label: t.workload + " (ms)"})
		for _, e := range r.entries(t.workload) {
			most = max(most, 1.08*e.slower)
		}
	}
	plot := p.Axes(svg.Axes{
		Box: svg.Box{X: svg.Margin, Y: top, W: chartWide - 2*svg.Margin, H: chartHigh - top - svg.Margin/2},
		X:   svg.Axis{Low: -0.6, High: float64(len(names)) - 0.4, Names: true, Ticks: names},
		Y:   svg.Axis{High: most, Ticks: svg.WholeTicks(0, most, 12)},
	})
	for x, t := range list {
		es := r.entries(t.workload)
		for i, e := range es {
			at := float64(x) + barWide*(float64(i)-float64(len(es)-1)/2)
			plot.Rect(svg.Point{X: at - barWide/2}, svg.Point{X: at + barWide/2, Y: e.slower}, svg.Style{Fill: inks[e.family]})
			p.Text(svg.Text{X: plot.X(at), Y: plot.Y(e.slower) - 4, Words: ms(e.median), Size: svg.SmallSize, Anchor: svg.Middle})
		}
	}
	return os.WriteFile(file, []byte(p.String()), 0o644)
}

// legend names the families that have a bar.
func (r report) legend() (list []svg.Entry) {
	for _, t := range targets {
		for _, e := range r.entries(t.workload) {
			if !slices.ContainsFunc(list, func(x svg.Entry) bool { return x.Words == e.family }) {
				list = append(list, svg.Entry{Words: e.family, Style: svg.Style{Fill: inks[e.family]}})
			}
		}
	}
	return list
}
