package schedule

import (
	"fmt"
	"strings"
)

// SVG draws the timeline as a picture 1000 units wide: a lane per worker, blue
// forward, green backward, teal gradients of weights, violet reduction, amber
// update.
func (t Timeline) SVG() string {
	const width, lane, left = 1000.0, 28.0, 60.0
	color := map[Kind]string{Forward: "#7aa6da", Backward: "#7cbf7c", Weights: "#6bb8b0", Reduce: "#b58fd0", Update: "#e0b050"}
	scale := 0.0
	if t.Makespan > 0 {
		scale = (width - left) / t.Makespan
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"monospace\" font-size=\"11\">\n", width, lane*float64(t.Workers)+20)
	for worker := range t.Workers {
		fmt.Fprintf(&b, "<text x=\"0\" y=\"%g\">worker %d</text>\n", lane*float64(worker)+18, worker)
	}
	for _, sp := range t.Spans {
		x, y := left+(sp.Start-t.origin())*scale, lane*float64(sp.Worker)+4
		fmt.Fprintf(&b, "<rect x=\"%.2f\" y=\"%g\" width=\"%.2f\" height=\"%g\" fill=\"%s\" stroke=\"#fff\"><title>%v %.4g to %.4g</title></rect>\n",
			x, y, (sp.End-sp.Start)*scale, lane-6, color[sp.Action.Kind], sp.Action, sp.Start, sp.End)
		fmt.Fprintf(&b, "<text x=\"%.2f\" y=\"%g\">%v</text>\n", x+2, y+15, sp.Action)
	}
	fmt.Fprintf(&b, "<text x=\"0\" y=\"%g\">%s</text>\n</svg>\n", lane*float64(t.Workers)+14, t.summary())
	return b.String()
}
