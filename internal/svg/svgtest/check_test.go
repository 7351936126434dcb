package svgtest_test

import (
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/svg/svgtest"
)

// Each fault of a picture is found, and a picture without any has none.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		draw func(*svg.Picture)
		want string
	}{
		{"fine", func(*svg.Picture) {}, ""},
		{"beyond the edge", func(p *svg.Picture) { p.Text(svg.Text{X: 190, Y: 50, Words: "beyond"}) }, "in a picture of 200 by 100"},
		{"turned beyond the edge", func(p *svg.Picture) { p.Text(svg.Text{X: 100, Y: 20, Words: "upwards", Turn: -90}) }, "in a picture of"},
		{"covered", func(p *svg.Picture) { p.Text(svg.Text{X: 50, Y: 22, Words: "over"}) }, `"over" covers "a fine text"`},
		{"faint", func(p *svg.Picture) {
			p.Rect(svg.Box{X: 10, Y: 50, W: 90, H: 30}, 4, svg.Style{Fill: svg.Blue})
			p.Text(svg.Text{X: 20, Y: 70, Words: "dark"})
		}, `"dark" in #1f2328 on #0072b2 has a contrast of`},
		{"not a number", func(p *svg.Picture) { p.Path(svg.Line(svg.Point{X: math.NaN()}), svg.Style{Fill: svg.Blue}) }, `a path goes to "NaN"`},
	} {
		p := &svg.Picture{Width: 200, Height: 100}
		p.Text(svg.Text{X: 20, Y: 22, Words: "a fine text", Hint: "with a hint"})
		c.draw(p)
		faults := strings.Join(svgtest.Faults(p.String()), "\n")
		if c.want == "" && faults != "" || !strings.Contains(faults, c.want) {
			t.Errorf("%s: faults %q, want %q", c.name, faults, c.want)
		}
	}
	if faults := svgtest.Faults("<svg><text"); len(faults) != 1 {
		t.Errorf("half a picture: %q", faults)
	}
}
