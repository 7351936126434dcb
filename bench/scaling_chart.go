package bench

import (
	"fmt"

	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/units"
)

// The sizes of the chart, in pixels.
const (
	chartWidth = 820.0
	chartRow   = 26.0
)

// SVG draws the speed-up of each way as a bar, with a mark where the simulation has it.
func (s Scaling) SVG() string {
	title := s.Workload + ": speed of a training step, one device = 1"
	p := &svg.Picture{Title: title, Width: chartWidth}
	p.Heading()
	threads := threadsOf(s.Ways)
	note := fmt.Sprintf("%d microbatches, %s for each device. Bars are measured, marks simulated with measured times.", s.Microbatches, threads)
	p.Text(svg.Small(svg.Margin, svg.HeadingHigh+6, note).Fit(chartWidth - 2*svg.Margin))
	const chartTop = svg.HeadingHigh + 20
	most := 1.0
	var names []svg.Tick
	for i, x := range s.Ways {
		most = max(most, x.SpeedUp, x.PredictedSpeedUp, float64(x.Devices))
		names = append(names, svg.Tick{At: float64(i), Label: x.label()})
	}
	rows := float64(len(s.Ways))
	plot := p.Axes(svg.Axes{
		Box: svg.Box{X: svg.Margin, Y: chartTop, W: chartWidth - 2*svg.Margin, H: chartRow*rows + 22},
		X:   svg.Axis{High: 1.08 * most, Ticks: svg.WholeTicks(0, most, 10)}, // with room for the last bar's number
		Y:   svg.Axis{Low: rows - 0.5, High: -0.5, Names: true, Ticks: names},
	})
	for i := range s.Ways {
		s.Ways[i].draw(p, plot, float64(i))
	}
	p.Height = chartTop + chartRow*rows + 36
	return p.String()
}

// draw draws a way in a row.
func (x *Way) draw(p *svg.Picture, plot *svg.Plot, row float64) {
	plot.Rect(svg.Point{X: 0, Y: row - 0.3}, svg.Point{X: x.SpeedUp, Y: row + 0.3}, svg.Style{Fill: x.color(), Hint: svg.Time(x.StepMS/1e3) + " a step"})
	plot.Line([]svg.Point{{X: x.PredictedSpeedUp, Y: row - 0.38}, {X: x.PredictedSpeedUp, Y: row + 0.38}}, svg.Style{Stroke: svg.Ink, Width: svg.BoldLine})
	p.Text(svg.Text{X: plot.X(max(x.SpeedUp, x.PredictedSpeedUp)) + 6, Y: plot.Y(row) + 4, Words: speedUp(x.SpeedUp)})
}

// threadsOf says how many threads each device has: all ways have as many.
func threadsOf(ways []Way) string {
	if len(ways) == 0 {
		return units.Count(1, "thread")
	}
	return units.Count(ways[0].Threads, "thread")
}

// color tells pipelines and replicas.
func (x *Way) color() svg.Color {
	switch {
	case x.Devices == 1:
		return svg.Grey
	case x.Replicas > 1:
		return svg.Green
	}
	return svg.Blue
}
