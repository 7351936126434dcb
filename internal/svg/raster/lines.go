package raster

import (
	"math"

	"github.com/berth-ml/berth/internal/svg"
)

// pieces is the number of lines that a curve is drawn with.
const pieces = 12

// flatten is a path as lines from point to point, in pixels of the image. A closed part ends
// where it begins.
func flatten(path svg.Path, scale float64) (lines [][]svg.Point) {
	var line []svg.Point
	at := func(p svg.Point) svg.Point { return svg.Point{X: p.X * scale, Y: p.Y * scale} }
	for _, s := range path {
		switch s.Op {
		case 'M':
			if len(line) > 1 {
				lines = append(lines, line)
			}
			line = []svg.Point{at(s.A)}
		case 'L':
			line = append(line, at(s.A))
		case 'C':
			line = curve(line, at(s.A), at(s.B), at(s.C))
		case 'Z':
			line = append(line, line[0])
		}
	}
	if len(line) > 1 {
		lines = append(lines, line)
	}
	return lines
}

// curve adds a cubic curve to a line.
func curve(line []svg.Point, a, b, to svg.Point) []svg.Point {
	from := line[len(line)-1]
	for i := 1; i <= pieces; i++ {
		t := float64(i) / pieces
		u := 1 - t
		w0, w1, w2, w3 := u*u*u, 3*u*u*t, 3*u*t*t, t*t*t
		line = append(line, svg.Point{
			X: w0*from.X + w1*a.X + w2*b.X + w3*to.X,
			Y: w0*from.Y + w1*a.Y + w2*b.Y + w3*to.Y,
		})
	}
	return line
}

// dashed cuts lines into dashes. dash has the lengths of dash and gap, in turns; without any,
// lines stay whole.
func dashed(lines [][]svg.Point, dash []float64) (cut [][]svg.Point) {
	if len(dash) == 0 {
		return lines
	}
	for _, line := range lines {
		part := []svg.Point{line[0]}
		turn, left := 0, dash[0]
		for i := 1; i < len(line); i++ {
			from, to := line[i-1], line[i]
			long := math.Hypot(to.X-from.X, to.Y-from.Y)
			for done := 0.0; done < long; {
				step := min(left, long-done)
				done, left = done+step, left-step
				f := done / long
				part = append(part, svg.Point{X: from.X + (to.X-from.X)*f, Y: from.Y + (to.Y-from.Y)*f})
				if left > 0 {
					continue
				}
				if turn%2 == 0 {
					cut = append(cut, part)
				}
				turn++
				left, part = dash[turn%len(dash)], []svg.Point{part[len(part)-1]}
			}
		}
		if turn%2 == 0 && len(part) > 1 {
			cut = append(cut, part)
		}
	}
	return cut
}

// stroked is the polygons of lines with a width: one for each line, and a circle at each bend.
// All of them turn the same way.
func stroked(lines [][]svg.Point, wide float64) (polygons [][]svg.Point) {
	for _, line := range lines {
		for i := 1; i < len(line); i++ {
			from, to := line[i-1], line[i]
			long := math.Hypot(to.X-from.X, to.Y-from.Y)
			if long == 0 {
				continue
			}
			dx, dy := (to.X-from.X)/long*wide/2, (to.Y-from.Y)/long*wide/2
			polygons = append(polygons, []svg.Point{
				{X: from.X - dy, Y: from.Y + dx}, {X: from.X + dy, Y: from.Y - dx},
				{X: to.X + dy, Y: to.Y - dx}, {X: to.X - dy, Y: to.Y + dx},
			})
			if i > 1 {
				polygons = append(polygons, circle(from, wide/2))
			}
		}
		if last := len(line) - 1; last > 1 && line[0] == line[last] {
			polygons = append(polygons, circle(line[0], wide/2))
		}
	}
	return polygons
}

// circle is a circle as a polygon, which turns as those of lines do.
func circle(at svg.Point, r float64) []svg.Point {
	const corners = 12
	list := make([]svg.Point, corners)
	for i := range list {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		list[i] = svg.Point{X: at.X + r*cos, Y: at.Y + r*sin}
	}
	return list
}
