// Package svgtest checks pictures that package svg has drawn.
//
// [Check] is the one function to know.
package svgtest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/svg"
)

// Check fails if a picture is not XML, or if one of its texts is outside of the picture, covers
// another text, or is hard to read on what is below it.
func Check(t testing.TB, picture string) {
	t.Helper()
	for _, fault := range Faults(picture) {
		t.Error(fault)
	}
}

// leastContrast is WCAG's for texts of a usual size.
const leastContrast = 4.5

// ground is an area or a line that texts may cover.
type ground struct {
	at    svg.Box
	color svg.Color
}

// label is a text with its place.
type label struct {
	words string
	at    svg.Box
	turn  float64
}

// page is what a picture has drawn so far.
type page struct {
	wide, high float64
	grounds    []ground
	labels     []label
	faults     []string
}

// Faults are what Check fails for.
func Faults(picture string) []string {
	var p page
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			p.overlaps()
			return p.faults
		}
		if err != nil {
			return append(p.faults, fmt.Sprintf("the picture is no XML: %v", err))
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		a := attributes{}
		for _, x := range start.Attr {
			a[x.Name.Local] = x.Value
		}
		switch start.Name.Local {
		case "svg":
			p.wide, p.high = a.number("width"), a.number("height")
		case "rect":
			at := svg.Box{X: a.number("x"), Y: a.number("y"), W: a.number("width"), H: a.number("height")}
			if a["width"] == "100%" { // the background
				at.W, at.H = p.wide, p.high
			}
			p.cover(a, at)
		case "circle":
			r := a.number("r")
			p.cover(a, svg.Box{X: a.number("cx") - r, Y: a.number("cy") - r, W: 2 * r, H: 2 * r})
		case "defs":
			if err := d.Skip(); err != nil {
				return append(p.faults, err.Error())
			}
		case "path":
			p.path(a)
		case "text":
			words, err := wordsOf(d)
			if err != nil {
				return append(p.faults, err.Error())
			}
			p.text(a, words)
		}
	}
}

// attributes are those of an element, by name.
type attributes map[string]string

// number is an attribute's number; 0 where it is not given.
func (a attributes) number(name string) float64 {
	v, err := strconv.ParseFloat(a[name], 64)
	if err != nil {
		return 0
	}
	return v
}

// wordsOf reads a text up to its end, without its hint.
func wordsOf(d *xml.Decoder) (words string, err error) {
	for depth := 1; depth > 0; {
		token, err := d.Token()
		if err != nil {
			return "", err
		}
		switch x := token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			if depth == 1 {
				words += string(x)
			}
		}
	}
	return words, nil
}

// path adds a filled path. A curve counts as its corners.
func (p *page) path(a attributes) {
	if !isColor(a["fill"]) {
		return
	}
	numbers := strings.FieldsFunc(a["d"], func(r rune) bool { return strings.ContainsRune("MLCZ ", r) })
	left, top, right, bottom := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for i := 0; i+1 < len(numbers); i += 2 {
		x, errX := strconv.ParseFloat(numbers[i], 64)
		y, errY := strconv.ParseFloat(numbers[i+1], 64)
		if errX != nil || errY != nil || math.IsNaN(x+y) || math.IsInf(x+y, 0) {
			p.faults = append(p.faults, fmt.Sprintf("a path goes to %q %q", numbers[i], numbers[i+1]))
			return
		}
		left, top, right, bottom = min(left, x), min(top, y), max(right, x), max(bottom, y)
	}
	p.cover(a, svg.Box{X: left, Y: top, W: right - left, H: bottom - top})
}

// cover adds what an element covers, unless that shows through.
func (p *page) cover(a attributes, at svg.Box) {
	if isColor(a["fill"]) && a["opacity"] == "" {
		p.grounds = append(p.grounds, ground{at, svg.Color(a["fill"])})
	}
}

// isColor reports whether a value is a colour as package svg writes it.
func isColor(value string) bool { return len(value) == 7 && value[0] == '#' }

// text adds a text.
func (p *page) text(a attributes, words string) {
	if !isColor(a["fill"]) || a.number("font-size") == 0 {
		p.faults = append(p.faults, fmt.Sprintf("%q has no colour and size of its own", words))
		return
	}
	t := svg.Text{Words: words, Size: a.number("font-size"), Bold: a["font-weight"] == "bold"}
	wide, left := t.Wide(), 0.0
	if strings.Contains(a["font-family"], "mono") {
		wide = 0.602 * t.Size * float64(len([]rune(words)))
	}
	switch a["text-anchor"] {
	case "middle":
		left = -wide / 2
	case "end":
		left = -wide
	}
	var turn, x, y float64
	if s := a["transform"]; s != "" {
		fmt.Sscanf(s, "rotate(%g %g %g)", &turn, &x, &y)
	}
	at := turned(svg.Box{X: left, Y: -0.72 * t.Size, W: wide, H: 0.72 * t.Size}, turn)
	at.X, at.Y = at.X+a.number("x"), at.Y+a.number("y")
	const slack = 1.0
	if at.X < -slack || at.Y < -slack || at.X+at.W > p.wide+slack || at.Y+at.H > p.high+slack {
		p.faults = append(p.faults, fmt.Sprintf("%q is at %+.0f in a picture of %g by %g", words, at, p.wide, p.high))
	}
	middle := svg.Point{X: at.X + at.W/2, Y: at.Y + at.H/2}
	for i := len(p.grounds) - 1; i >= 0; i-- {
		g := p.grounds[i]
		if within(g.at, middle) {
			if c := svg.Contrast(svg.Color(a["fill"]), g.color); c < leastContrast {
				p.faults = append(p.faults, fmt.Sprintf("%q in %s on %s has a contrast of %.2f, want %g", words, a["fill"], g.color, c, leastContrast))
			}
			break
		}
	}
	p.labels = append(p.labels, label{words, at, turn})
}

// turned is the box around a box that is turned by degrees around 0, 0.
func turned(b svg.Box, degrees float64) svg.Box {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	left, top, right, bottom := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, c := range []svg.Point{{X: b.X, Y: b.Y}, {X: b.X + b.W, Y: b.Y}, {X: b.X, Y: b.Y + b.H}, {X: b.X + b.W, Y: b.Y + b.H}} {
		x, y := c.X*cos-c.Y*sin, c.X*sin+c.Y*cos
		left, top, right, bottom = min(left, x), min(top, y), max(right, x), max(bottom, y)
	}
	return svg.Box{X: left, Y: top, W: right - left, H: bottom - top}
}

func within(b svg.Box, at svg.Point) bool {
	return b.X <= at.X && at.X <= b.X+b.W && b.Y <= at.Y && at.Y <= b.Y+b.H
}

// overlaps finds texts that cover each other. Slanted ones are left out: their boxes overlap
// where they do not.
func (p *page) overlaps() {
	const slack = 1.0
	var straight []label
	for _, l := range p.labels {
		if math.Mod(l.turn, 90) == 0 {
			straight = append(straight, l)
		}
	}
	for i, a := range straight {
		for _, b := range straight[i+1:] {
			across := min(a.at.X+a.at.W, b.at.X+b.at.W) - max(a.at.X, b.at.X)
			down := min(a.at.Y+a.at.H, b.at.Y+b.at.H) - max(a.at.Y, b.at.Y)
			if across > slack && down > slack {
				p.faults = append(p.faults, fmt.Sprintf("%q covers %q at %+.0f", b.words, a.words, b.at))
			}
		}
	}
}
