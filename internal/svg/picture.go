package svg

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/png"
	"strconv"
	"strings"
)

// Picture is paths and texts. Later ones cover earlier ones.
type Picture struct {
	Title         string // read aloud, and shown by viewers; not drawn
	Width, Height float64
	elements      []func(Pen)
}

// Pen draws the elements of a picture in some format.
type Pen interface {
	Path(Path, Style)
	Text(Text)
	Image(Box, image.Image)
}

// Draw hands all elements to a pen.
func (p *Picture) Draw(to Pen) {
	for _, e := range p.elements {
		e(to)
	}
}

// Path adds a path.
func (p *Picture) Path(path Path, s Style) {
	p.elements = append(p.elements, func(to Pen) { to.Path(path, s) })
}

// Text adds a text.
func (p *Picture) Text(t Text) {
	if t.Words == "" {
		return
	}
	t.Words = Clean(t.Words)
	p.elements = append(p.elements, func(to Pen) { to.Text(t) })
}

// Heading adds the title on top of the picture, which has its width.
func (p *Picture) Heading() {
	t := Text{X: Margin, Y: Margin + TitleSize, Words: p.Title, Size: TitleSize, Bold: true}
	p.Text(t.Fit(p.Width - 2*Margin))
}

// HeadingHigh is the height of a heading, with the room above and below.
const HeadingHigh = Margin + TitleSize + 10

// Image adds an image that fills a box. Its pixels stay squares where they are large.
func (p *Picture) Image(b Box, m image.Image) {
	p.elements = append(p.elements, func(to Pen) { to.Image(b, m) })
}

// Line adds a straight line.
func (p *Picture) Line(x1, y1, x2, y2 float64, s Style) {
	p.Path(Line(Point{x1, y1}, Point{x2, y2}), s)
}

// Rect adds a rectangle with corners of radius round.
func (p *Picture) Rect(b Box, round float64, s Style) { p.Path(Rect(b, round), s) }

// Mark adds a mark of a chart.
func (p *Picture) Mark(m Mark, at Point, c Color) { p.Path(m.path(at), Style{Fill: c}) }

// Arrow adds a line or a curve with a head at its end.
func (p *Picture) Arrow(path Path, s Style) {
	p.Path(path, s)
	tip, from := path.end()
	p.Path(head(tip, from), Style{Fill: s.Stroke})
}

// String is the picture as SVG.
func (p *Picture) String() string {
	var b strings.Builder
	w, h := number(p.Width), number(p.Height)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" font-family="%s" stroke-linejoin="round">`+"\n", w, h, w, h, sans)
	if p.Title != "" {
		fmt.Fprintf(&b, "<title>%s</title>\n", escape(Clean(p.Title)))
	}
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="%s"/>`+"\n", White)
	p.Draw(&writer{&b})
	b.WriteString("</svg>\n")
	return b.String()
}

// writer is the pen of SVG.
type writer struct{ b *strings.Builder }

// number is a length with at most two decimals.
func number(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

func escape(s string) string { return html.EscapeString(s) }

func (w *writer) attribute(name, value string) { fmt.Fprintf(w.b, ` %s="%s"`, name, value) }

func (w *writer) Path(path Path, s Style) {
	w.b.WriteString(`<path d="`)
	path.write(w.b)
	w.b.WriteByte('"')
	fill := s.Fill
	if fill == "" {
		fill = "none"
	}
	w.attribute("fill", string(fill))
	if s.Stroke != "" {
		w.attribute("stroke", string(s.Stroke))
		if s.Width != 0 && s.Width != 1 {
			w.attribute("stroke-width", number(s.Width))
		}
	}
	if len(s.Dash) > 0 {
		var list []string
		for _, d := range s.Dash {
			list = append(list, number(d))
		}
		w.attribute("stroke-dasharray", strings.Join(list, " "))
	}
	if s.Opacity != 0 {
		w.attribute("opacity", number(s.Opacity))
	}
	if s.Hint == "" {
		w.b.WriteString("/>\n")
		return
	}
	fmt.Fprintf(w.b, "><title>%s</title></path>\n", escape(Clean(s.Hint)))
}

func (w *writer) Image(b Box, m image.Image) {
	var data bytes.Buffer
	if err := png.Encode(&data, m); err != nil {
		panic("BUG: " + err.Error()) // memory takes any image that has pixels
	}
	w.b.WriteString(`<image style="image-rendering: pixelated" preserveAspectRatio="none"`)
	for _, x := range []struct {
		name string
		v    float64
	}{{"x", b.X}, {"y", b.Y}, {"width", b.W}, {"height", b.H}} {
		w.attribute(x.name, number(x.v))
	}
	w.attribute("href", "data:image/png;base64,"+base64.StdEncoding.EncodeToString(data.Bytes()))
	w.b.WriteString("/>\n")
}

func (w *writer) Text(t Text) {
	w.b.WriteString("<text")
	w.attribute("x", number(t.X))
	w.attribute("y", number(t.Y))
	w.attribute("font-size", number(t.size()))
	w.attribute("fill", string(t.color()))
	if t.Bold {
		w.attribute("font-weight", "bold")
	}
	if t.Mono {
		w.attribute("font-family", mono)
	}
	if t.Anchor != Start {
		w.attribute("text-anchor", anchors[t.Anchor])
	}
	if t.Turn != 0 {
		w.attribute("transform", fmt.Sprintf("rotate(%s %s %s)", number(t.Turn), number(t.X), number(t.Y)))
	}
	if t.Inside {
		w.attribute("pointer-events", "none")
	}
	hint := ""
	if t.Hint != "" {
		hint = "<title>" + escape(Clean(t.Hint)) + "</title>"
	}
	fmt.Fprintf(w.b, ">%s%s</text>\n", hint, escape(t.Words))
}
