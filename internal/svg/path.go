package svg

import (
	"math"
	"strings"
)

// Point is a place.
type Point struct{ X, Y float64 }

// Box is a rectangle.
type Box struct{ X, Y, W, H float64 }

// Path is an outline.
type Path []Step

// Step goes on from the end of the step before.
type Step struct {
	Op      byte // 'M' moves to A, 'L' draws a line to A, 'C' a curve by A and B to C, 'Z' back to where 'M' went
	A, B, C Point
}

// Line is lines from point to point.
func Line(points ...Point) Path {
	path := make(Path, len(points))
	for i, at := range points {
		path[i] = Step{Op: 'L', A: at}
	}
	if len(path) > 0 {
		path[0].Op = 'M'
	}
	return path
}

// Area is a polygon.
func Area(points ...Point) Path { return append(Line(points...), Step{Op: 'Z'}) }

// Curve is a cubic curve from one point to another, by two that pull it.
func Curve(from, a, b, to Point) Path {
	return Path{{Op: 'M', A: from}, {Op: 'C', A: a, B: b, C: to}}
}

// round is how far a quarter of a circle is pulled, in radii.
const round = 0.5523

// Rect is a rectangle whose corners have the radius r.
func Rect(b Box, r float64) Path {
	right, bottom := b.X+b.W, b.Y+b.H
	r = max(0, min(r, b.W/2, b.H/2))
	if r == 0 {
		return Area(Point{b.X, b.Y}, Point{right, b.Y}, Point{right, bottom}, Point{b.X, bottom})
	}
	k := r * (1 - round)
	curve := func(ax, ay, bx, by, x, y float64) Step { return Step{'C', Point{ax, ay}, Point{bx, by}, Point{x, y}} }
	line := func(x, y float64) Step { return Step{Op: 'L', A: Point{x, y}} }
	return Path{
		{Op: 'M', A: Point{b.X + r, b.Y}},
		line(right-r, b.Y), curve(right-k, b.Y, right, b.Y+k, right, b.Y+r),
		line(right, bottom-r), curve(right, bottom-k, right-k, bottom, right-r, bottom),
		line(b.X+r, bottom), curve(b.X+k, bottom, b.X, bottom-k, b.X, bottom-r),
		line(b.X, b.Y+r), curve(b.X, b.Y+k, b.X+k, b.Y, b.X+r, b.Y),
		{Op: 'Z'},
	}
}

// Mark is the shape of a point in a chart.
type Mark int

// The marks.
const (
	NoMark Mark = iota
	Circle
	Triangle
	Square
	Diamond
)

// path is a mark's outline. All marks look about as large.
func (m Mark) path(at Point) Path {
	switch m {
	case Triangle:
		return Area(Point{at.X, at.Y - 3.6}, Point{at.X + 3.4, at.Y + 2.6}, Point{at.X - 3.4, at.Y + 2.6})
	case Square:
		return Rect(Box{at.X - 2.5, at.Y - 2.5, 5, 5}, 0)
	case Diamond:
		return Area(Point{at.X, at.Y - 3.7}, Point{at.X + 3.7, at.Y}, Point{at.X, at.Y + 3.7}, Point{at.X - 3.7, at.Y})
	}
	return Rect(Box{at.X - 2.7, at.Y - 2.7, 5.4, 5.4}, 2.7)
}

// end is a path's end, and a point from which the path comes there.
func (p Path) end() (tip, from Point) {
	last := p[len(p)-1]
	if last.Op == 'C' {
		return last.C, last.B
	}
	return last.A, p[len(p)-2].A
}

// head is the head of an arrow.
func head(tip, from Point) Path {
	const long, half = 7, 3.5
	dx, dy := tip.X-from.X, tip.Y-from.Y
	if n := math.Hypot(dx, dy); n > 0 {
		dx, dy = dx/n, dy/n
	}
	back := Point{tip.X - long*dx, tip.Y - long*dy}
	return Area(tip, Point{back.X - half*dy, back.Y + half*dx}, Point{back.X + half*dy, back.Y - half*dx})
}

// write writes a path as SVG does.
func (p Path) write(b *strings.Builder) {
	to := func(points ...Point) {
		for i, at := range points {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(number(at.X) + " " + number(at.Y))
		}
	}
	for _, s := range p {
		b.WriteByte(s.Op)
		switch s.Op {
		case 'M', 'L':
			to(s.A)
		case 'C':
			to(s.A, s.B, s.C)
		}
	}
}
