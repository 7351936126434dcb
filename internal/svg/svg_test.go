package svg_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/svg"
)

// sample is a chart with one of everything.
func sample() *svg.Picture {
	p := &svg.Picture{Title: "a <sample> & more", Width: 420, Height: 260}
	bottom := p.Legend(16, 10, 388,
		svg.Entry{Words: "line", Style: svg.Style{Stroke: svg.Blue, Width: 2}, Mark: svg.Triangle},
		svg.Entry{Words: "dashed", Style: svg.Style{Stroke: svg.Vermilion, Dash: []float64{4, 2}}},
		svg.Entry{Words: "area", Style: svg.Style{Fill: svg.Green, Opacity: 0.5}})
	plot := p.Axes(svg.Axes{
		Box: svg.Box{X: 16, Y: bottom, W: 388, H: 220 - bottom}, Title: "a chart",
		X: svg.Axis{Label: "x", High: 4, Ticks: svg.Ticks(0, 4, 5)},
		Y: svg.Axis{Label: "y", Low: 0.01, High: 100, Log: true, Ticks: svg.LogTicks(0.01, 100)},
	})
	points := []svg.Point{{X: 0, Y: 0.02}, {X: 2, Y: 5}, {X: 4, Y: 50}}
	plot.Area(append(points, svg.Point{X: 4, Y: 0.01}), svg.Style{Fill: svg.Green, Opacity: 0.5, Hint: "the \"area\""})
	plot.Line(points, svg.Style{Stroke: svg.Blue, Width: 2})
	plot.Marks(points, svg.Triangle, svg.Blue)
	plot.Rect(svg.Point{X: 1, Y: 0.01}, svg.Point{X: 1.5, Y: 1}, svg.Style{Fill: svg.Sky})
	plot.Text(svg.Point{X: 3, Y: 0.1}, svg.Text{Words: "turned", Turn: 30, Bold: true, Inside: true})
	p.Arrow(svg.Curve(svg.Point{X: 20, Y: 250}, svg.Point{X: 20, Y: 225}, svg.Point{X: 100, Y: 225}, svg.Point{X: 100, Y: 249}), svg.Style{Stroke: svg.Limit})
	p.Rect(svg.Box{X: 120, Y: 230, W: 60, H: 20}, 6, svg.Style{Fill: svg.White, Stroke: svg.Edge})
	p.Text(svg.Text{X: 400, Y: 245, Words: "x < y\x00", Mono: true, Anchor: svg.End})
	return p
}

func TestPictureIsAsBefore(t *testing.T) { golden.Check(t, "testdata/sample.svg", sample().String()) }

// A picture is XML, whatever its texts are.
func TestPictureIsXML(t *testing.T) {
	p := sample()
	for _, words := range []string{"<&>\"'", "\x00\x1b", "\xff\xfe", "￾￿", "]]>", strings.Repeat("x", 1000)} {
		p.Text(svg.Text{Words: words})
		p.Rect(svg.Box{}, 1, svg.Style{Fill: svg.Ink, Hint: words})
		p.Title += words
	}
	for d := xml.NewDecoder(strings.NewReader(p.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The numbers in cells are readable at every shade, and names on every colour.
func TestTextIsReadable(t *testing.T) {
	grounds := append([]svg.Color{svg.White, svg.Grey, svg.Limit}, svg.Series...)
	for i := range 1001 {
		grounds = append(grounds, svg.Shade(float64(i)/1000))
	}
	for _, ground := range grounds {
		if c := svg.Contrast(svg.On(ground), ground); c < 4.5 {
			t.Errorf("text on %s has a contrast of %.2f, want 4.5", ground, c)
		}
	}
	for _, ground := range append([]svg.Color{svg.White}, svg.Tints...) {
		for _, text := range []svg.Color{svg.Ink, svg.Faint} {
			if c := svg.Contrast(text, ground); c < 4.5 {
				t.Errorf("%s on %s has a contrast of %.2f, want 4.5", text, ground, c)
			}
		}
	}
}

func labels(list []svg.Tick) string {
	var words []string
	for _, x := range list {
		words = append(words, x.Label)
	}
	return strings.Join(words, " ")
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name string
		have []svg.Tick
		want string
	}{
		{"from 0", svg.Ticks(0, 1, 5), "0 0.2 0.4 0.6 0.8 1"},
		{"below 0", svg.Ticks(-1, 1, 4), "-1 -0.5 0 0.5 1"},
		{"just below 0", svg.Ticks(-0.01, 1, 3), "0 0.5 1"},
		{"far from 0", svg.Ticks(1234, 1236, 4), "1234 1234.5 1235 1235.5 1236"},
		{"large", svg.Ticks(0, 45000, 6), "0 10k 20k 30k 40k"},
		{"whole", svg.WholeTicks(0, 3, 10), "0 1 2 3"},
		{"sizes", svg.SizeTicks(0, 3<<20, 3), "0|MiB 1|MiB 2|MiB 3|MiB"},
		{"small sizes", svg.SizeTicks(0, 1000, 2), "0|B 500|B 1000|B"},
		{"in ms", svg.TimeTicks(0, 0.0124, 3), "0 5|ms 10|ms"},
		{"in min", svg.TimeTicks(0, 400, 4), "0 2|min 4|min 6|min"},
		{"in words", svg.TicksOf(0, 2, 2, func(v float64) string { return fmt.Sprintf("%g ms", v) }), "0 ms|1 ms|2 ms"},
		{"a decade and more", svg.LogTicks(0.3, 30), "0.5 1 2 5 10 20"},
		{"many decades", svg.LogTicks(1e-12, 1), "1e-12 1e-10 1e-08 1e-06 0.0001 0.01 1"},
		{"within a decade", svg.LogTicks(3, 4), "3 3.2 3.4 3.6 3.8 4"},
	} {
		if have := labels(c.have); have != strings.ReplaceAll(c.want, "|", " ") {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
	// Where steps are lost in rounding, there are some ticks, and an end.
	if n := len(svg.Ticks(1e16, 1e16+2, 7)); n == 0 || n > 100 {
		t.Errorf("%d ticks from 1e16 to 1e16+2", n)
	}
}

// Names that are too wide to be side by side are slanted, and end below the chart.
func TestSlantedNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		slanted bool
	}{{"cat", false}, {"a rather long name", true}} {
		p := &svg.Picture{Width: 300, Height: 200}
		axis := svg.Axis{Low: -0.5, High: 3.5, Names: true}
		for i := range 4 {
			axis.Ticks = append(axis.Ticks, svg.Tick{At: float64(i), Label: c.name})
		}
		plot := p.Axes(svg.Axes{Box: svg.Box{W: 300, H: 200}, X: axis, Y: svg.Axis{High: 1}})
		if have := strings.Contains(p.String(), "rotate(-45"); have != c.slanted {
			t.Errorf("%q: slanted is %v", c.name, have)
		}
		if room, need := 200-plot.Inside.H, svg.Width(c.name, svg.SmallSize)*math.Sqrt2/2; c.slanted && room < need {
			t.Errorf("%q: %g pixels below the chart, %g are needed", c.name, room, need)
		}
	}
}

func TestCut(t *testing.T) {
	for _, words := range []string{"", "short", "ein etwas längerer Text · 例", strings.Repeat("W", 50)} {
		for room := 0.0; room < 200; room += 7 {
			have := svg.Cut(words, 12, room)
			if svg.Width(have, 12) > room {
				t.Errorf("%q in %g: %q is wider", words, room, have)
			}
			if svg.Width(words, 12) <= room && have != words {
				t.Errorf("%q in %g: cut to %q", words, room, have)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12: "12", 1500: "1500", 15000: "15k", 0.25: "0.25", 3e-5: "3e-05", -2.5e6: "-2.5M", 7e9: "7G", 1e15: "1e+15"} {
		if have := svg.Number(v); have != want {
			t.Errorf("%g: %q, want %q", v, have, want)
		}
	}
	if have := svg.Rounded(2474e6) + " " + svg.Rounded(1.0/3); have != "2.47G 0.333" {
		t.Errorf("%q", have)
	}
}

func TestTime(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 s", 3e-10: "0.3 ns", 2.5e-8: "25 ns", 1.25e-5: "12.5 µs", 0.0999: "99.9 ms", 0.99996: "1 s", 12.345: "12.3 s", 119: "119 s", 960: "16 min", 36000: "10 h", 1e9: "278k h",
	} {
		if have := svg.Time(v); have != want {
			t.Errorf("%g s: %q, want %q", v, have, want)
		}
	}
}

func TestShare(t *testing.T) {
	for v, want := range map[float64]string{0: "0%", 0.0004: "0%", 0.001: "0.1%", 0.0994: "9.9%", 0.0996: "10%", 0.5: "50%", 1: "100%"} {
		if have := svg.Share(v); have != want {
			t.Errorf("%g: %q, want %q", v, have, want)
		}
	}
}

// A text that does not fit is cut, and the pointer shows all of it.
func TestFit(t *testing.T) {
	for _, text := range []svg.Text{svg.Head(0, 0, "a heading"), svg.Small(0, 0, "a small text")} {
		if have := text.Fit(200); have != text {
			t.Errorf("%q in 200: %q", text.Words, have.Words)
		}
		if have := text.Fit(40); have.Wide() > 40 || have.Hint != text.Words || have.Words == "" {
			t.Errorf("%q in 40: %q of width %g, hint %q", text.Words, have.Words, have.Wide(), have.Hint)
		}
	}
}

// Entries in more than two rows stand in columns.
func TestLegendHasColumns(t *testing.T) {
	var entries []svg.Entry
	for i := range 9 {
		entries = append(entries, svg.Entry{Words: strings.Repeat("run ", 1+i%4), Style: svg.Style{Stroke: svg.Blue}})
	}
	for wide, columns := range map[float64]bool{900: false, 260: true} {
		p := &svg.Picture{Width: wide, Height: 200}
		p.Legend(0, 0, wide, entries...)
		places := map[string]bool{}
		for _, part := range strings.Split(p.String(), `<text x="`)[1:] {
			places[strings.SplitN(part, `"`, 2)[0]] = true
		}
		if have := len(places) < len(entries); have != columns {
			t.Errorf("%g wide: texts begin at %d places", wide, len(places))
		}
	}
}
