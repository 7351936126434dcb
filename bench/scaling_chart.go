package bench

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The sizes of the chart, in pixels.
const (
	chartLeft  = 270.0 // of the bars
	chartRight = 60.0  // behind them
	chartWidth = 820.0
	chartTop   = 78.0
	chartRow   = 26.0
	chartBar   = 15.0
)

// SVG draws the speed-up of each way as a bar, with a mark where the simulation has it.
func (s Scaling) SVG() string {
	var b strings.Builder
	most := 1.0
	for _, x := range s.Ways {
		most = max(most, x.SpeedUp, x.PredictedSpeedUp, float64(x.Devices))
	}
	bottom := chartTop + chartRow*float64(len(s.Ways))
	at := func(speedUp float64) float64 { return chartLeft + speedUp/most*(chartWidth-chartLeft-chartRight) }
	text := func(x, y float64, anchor, class, format string, args ...any) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(fmt.Sprintf(format, args...)))
	}
	for i := 0.0; i <= math.Floor(most); i++ {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="tick"/>`+"\n", at(i), chartTop-4, at(i), bottom)
		text(at(i), bottom+15, "middle", "small", "%.0f", i)
	}
	text(16, 26, "start", "title", "%s: speed of a training step, one device = 1", s.Workload)
	text(16, 46, "start", "small", "%d microbatches, %s for each device. Bars are measured, marks simulated with measured times.", s.Microbatches, s.threadsText())
	for i, x := range s.Ways {
		y := chartTop + chartRow*float64(i)
		text(chartLeft-8, y+12, "end", "", "%s", x.label())
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" class="%s"><title>%.2f ms a step</title></rect>`+"\n",
			chartLeft, y, at(x.SpeedUp)-chartLeft, chartBar, barClass(&x), x.StepMS)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="mark"/>`+"\n", at(x.PredictedSpeedUp), y-2, at(x.PredictedSpeedUp), y+chartBar+2)
		text(at(max(x.SpeedUp, x.PredictedSpeedUp))+6, y+12, "start", "", "%.2f", x.SpeedUp)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f">
<style>
text { font: 12px system-ui, sans-serif; fill: #24303c }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 11px; fill: #5b6b7b }
.tick { stroke: #dde4ea }
.one { fill: #8a99a8 }
.stages { fill: #1b5e9b }
.replicas { fill: #6ab187 }
.mark { stroke: #24303c; stroke-width: 2 }
</style>
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, chartWidth, bottom+28, chartWidth, bottom+28, b.String())
}

func (s Scaling) threadsText() string {
	if len(s.Ways) == 0 {
		return threads(1)
	}
	return threads(s.Ways[0].Threads)
}

// barClass colours pipelines and replicas.
func barClass(x *Way) string {
	switch {
	case x.Devices == 1:
		return "one"
	case x.Replicas > 1:
		return "replicas"
	}
	return "stages"
}
