package svg

import "math"

// Axes are the frame of a chart: its title, ticks and labels.
type Axes struct {
	Box   Box // around all of it
	Title string
	X, Y  Axis
	Left  float64 // room for Y's texts, at least; charts below each other share the largest LeftRoom
}

// Axis is a direction of a chart. Low may be above High: then values grow to the left, or down.
type Axis struct {
	Label     string
	Low, High float64
	Log       bool // logarithmic: Low and High are above 0
	Names     bool // ticks are names: without lines
	Ticks     []Tick
}

// Distances within axes.
const (
	tickGap   = 6.0  // from a tick's label to the chart
	tickHigh  = 18.0 // of the row of ticks
	headHigh  = 24.0 // of the title
	labelHigh = 18.0 // of an axis' label
	rightRoom = 10.0 // for half of the last tick's label
)

// At is where a value is on an axis, from 0 to 1.
func (a *Axis) At(v float64) float64 {
	if a.Log {
		return math.Log(v/a.Low) / math.Log(a.High/a.Low)
	}
	return (v - a.Low) / (a.High - a.Low)
}

// widest is the width of the widest tick.
func (a *Axis) widest() (wide float64) {
	for _, t := range a.Ticks {
		wide = max(wide, Width(t.Label, SmallSize))
	}
	return wide
}

// labelRoom is the room for the label.
func (a *Axis) labelRoom() float64 {
	if a.Label == "" {
		return 0
	}
	return labelHigh
}

// LeftRoom is the room for Y's texts.
func (a *Axes) LeftRoom() float64 { return a.Y.labelRoom() + a.Y.widest() + tickGap }

// inside is the chart itself, and whether names below it are slanted, as there is no room for
// them side by side.
func (a *Axes) inside() (b Box, slanted bool) {
	b = a.Box
	if a.Title != "" {
		b.Y, b.H = b.Y+headHigh, b.H-headHigh
	}
	left := max(a.Left, a.LeftRoom())
	b.X, b.W = b.X+left, b.W-left-rightRoom
	below := tickHigh
	if slanted = a.X.Names && a.X.widest() > b.W/float64(len(a.X.Ticks))-tickGap; slanted {
		below = a.X.widest()*math.Sqrt2/2 + 2*tickGap
	}
	b.H -= below + a.X.labelRoom()
	return b, slanted
}

// Axes draws axes, and returns the chart in them.
func (p *Picture) Axes(a Axes) *Plot {
	b, slanted := a.inside()
	c := &Plot{p: p, Inside: b, x: a.X, y: a.Y}
	p.Text(Head(b.X+b.W/2, a.Box.Y+HeadSize, a.Title).Fit(b.W).At(Middle))
	bottom, right := b.Y+b.H, b.X+b.W
	for _, t := range a.X.Ticks {
		x := c.X(t.At)
		if !a.X.Names {
			p.Line(x, b.Y, x, bottom, Style{Stroke: Grid})
		}
		text := t.text(x, bottom+15).At(Middle)
		if slanted {
			text.X, text.Y, text.Anchor, text.Turn = x+4, bottom+tickGap+5, End, -45
		}
		p.Text(text)
	}
	for _, t := range a.Y.Ticks {
		y := c.Y(t.At)
		if !a.Y.Names {
			p.Line(b.X, y, right, y, Style{Stroke: Grid})
		}
		p.Text(t.text(b.X-tickGap, y+4).At(End))
	}
	if !a.X.Names || !a.Y.Names {
		p.Line(b.X, b.Y, b.X, bottom, Style{Stroke: Edge})
		p.Line(b.X, bottom, right, bottom, Style{Stroke: Edge})
	}
	p.Text(Small(b.X+b.W/2, a.Box.Y+a.Box.H-4, a.X.Label).At(Middle))
	up := Small(a.Box.X+SmallSize, b.Y+b.H/2, a.Y.Label).At(Middle)
	up.Turn = -90
	p.Text(up)
	return c
}

// text is the label.
func (t Tick) text(x, y float64) Text {
	text := Small(x, y, t.Label)
	text.Hint = t.Hint
	return text
}

// Plot is a chart within axes. Its methods take values, not pixels.
type Plot struct {
	Inside Box // in pixels
	p      *Picture
	x, y   Axis
}

// X is where a value is across, in pixels.
func (c *Plot) X(v float64) float64 { return c.Inside.X + c.Inside.W*c.x.At(v) }

// Y is where a value is, in pixels.
func (c *Plot) Y(v float64) float64 { return c.Inside.Y + c.Inside.H*(1-c.y.At(v)) }

// places are where values are, in pixels.
func (c *Plot) places(values []Point) []Point {
	list := make([]Point, len(values))
	for i, v := range values {
		list[i] = Point{c.X(v.X), c.Y(v.Y)}
	}
	return list
}

// Line draws a line from value to value.
func (c *Plot) Line(values []Point, s Style) { c.p.Path(Line(c.places(values)...), s) }

// Area fills the polygon of values.
func (c *Plot) Area(values []Point, s Style) { c.p.Path(Area(c.places(values)...), s) }

// Marks draws a mark at each value.
func (c *Plot) Marks(values []Point, m Mark, color Color) {
	for _, at := range c.places(values) {
		c.p.Mark(m, at, color)
	}
}

// Rect draws the rectangle between two values.
func (c *Plot) Rect(from, to Point, s Style) {
	x1, y1, x2, y2 := c.X(from.X), c.Y(from.Y), c.X(to.X), c.Y(to.Y)
	c.p.Rect(Box{min(x1, x2), min(y1, y2), math.Abs(x2 - x1), math.Abs(y2 - y1)}, 0, s)
}

// Text draws a text whose middle line is at a value.
func (c *Plot) Text(at Point, t Text) {
	t.X, t.Y = c.X(at.X), c.Y(at.Y)+0.36*t.size()
	c.p.Text(t)
}
