package curves

import (
	"math"
	"slices"
	"sort"
)

// point is a value at a step. The value is NaN where the metric is not defined.
type point struct{ step, y float64 }

// curve is a metric by step. Steps grow strictly.
type curve struct {
	points []point
	lent   bool // an index that is written reads these points: they stay, and others come behind them
}

// add appends a value, and reports whether it replaced earlier ones: a run that resumes takes steps again.
func (c *curve) add(step, y float64) (replaced bool) {
	if n := len(c.points); n > 0 && c.points[n-1].step >= step {
		c.points = c.points[:c.from(step)]
		replaced = true
		if c.lent {
			c.points, c.lent = slices.Clone(c.points), false
		}
	}
	c.points = append(c.points, point{step, y})
	return replaced
}

// grow makes room for so many points in all.
func (c *curve) grow(points int) {
	c.points, c.lent = append(make([]point, 0, max(points, len(c.points))), c.points...), false
}

// from is the index of the first point at a step or behind it.
func (c *curve) from(step float64) int {
	return sort.Search(len(c.points), func(i int) bool { return c.points[i].step >= step })
}

// halve keeps the least and the largest of every four points, so that a curve without end has an end of memory.
func (c *curve) halve() {
	kept := make([]point, 0, len(c.points)/2+len(c.points)/8+2)
	for i := 0; i < len(c.points); i += 4 {
		kept = appendExtremes(kept, c.points[i:min(i+4, len(c.points))])
	}
	c.points, c.lent = kept, false
}

// appendExtremes appends the least and the largest of points in their order; one NaN where there is nothing else.
func appendExtremes(to, points []point) []point {
	least, largest := -1, -1
	for i, p := range points {
		if math.IsNaN(p.y) {
			continue
		}
		if least < 0 || p.y < points[least].y {
			least = i
		}
		if largest < 0 || p.y > points[largest].y {
			largest = i
		}
	}
	switch {
	case len(points) == 0:
		return to
	case least < 0:
		return append(to, points[0])
	case least == largest:
		return append(to, points[least])
	}
	return append(to, points[min(least, largest)], points[max(least, largest)])
}

// Span is the part of an axis that is shown. The zero value is all of it.
type Span struct{ From, To float64 }

// thin is the part of a curve within a span, and one point at either side of it, so that the line goes on to the edges. Where
// that is more than two points for each column, it is the least and the largest of each.
func thin(points []point, at Axis, s Span, columns int) []point {
	if s != (Span{}) {
		first := sort.Search(len(points), func(i int) bool { return at.of(points[i].step) >= s.From })
		behind := sort.Search(len(points), func(i int) bool { return at.of(points[i].step) > s.To })
		points = points[max(0, first-1):min(len(points), max(first, behind)+1)]
	}
	if len(points) <= 2*columns {
		return points
	}
	from := at.of(points[0].step)
	width := (at.of(points[len(points)-1].step) - from) / float64(columns)
	column := func(i int) int {
		if !(width > 0) { // or all would be at one place
			return i * columns / len(points)
		}
		return min(columns-1, int((at.of(points[i].step)-from)/width))
	}
	kept := make([]point, 0, 2*columns)
	for i := 0; i < len(points); {
		of := column(i) // which never falls, so the end of a column need not be walked to
		j := i + 1 + sort.Search(len(points)-i-1, func(k int) bool { return column(i+1+k) != of })
		kept = appendExtremes(kept, points[i:j])
		i = j
	}
	return kept
}
