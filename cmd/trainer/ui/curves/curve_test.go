package curves

import (
	"math"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bySteps = Axis{Unit: "step", of: func(s float64) float64 { return s }}

// drawCurve draws a curve of growing steps, some of whose values are not defined.
func drawCurve(t *rapid.T) *curve {
	c := &curve{}
	step := 0.0
	for range rapid.IntRange(1, 400).Draw(t, "points") {
		step += float64(rapid.IntRange(1, 1000).Draw(t, "gap"))
		y := rapid.Float64Range(-1e6, 1e6).Draw(t, "y")
		if rapid.IntRange(0, 9).Draw(t, "undefined") == 0 {
			y = math.NaN()
		}
		c.add(step, y)
	}
	return c
}

// extremes are the least and the largest value of points, NaN without one.
func extremes(points []point) (least, largest float64) {
	least, largest = math.NaN(), math.NaN()
	for _, p := range points {
		if !(p.y >= least) && !math.IsNaN(p.y) {
			least = p.y
		}
		if !(p.y <= largest) && !math.IsNaN(p.y) {
			largest = p.y
		}
	}
	return least, largest
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// Thinning keeps the least and the largest value of every column, and nothing but points of the curve in their order.
func TestThinKeepsEachColumnsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, columns := drawCurve(t), rapid.IntRange(1, 60).Draw(t, "columns")
		kept := thin(c.points, bySteps, Span{}, columns)
		if len(kept) > max(2*columns, 1) {
			t.Fatalf("%d points in %d columns", len(kept), columns)
		}
		from, to := c.points[0].step, c.points[len(c.points)-1].step
		in := func(points []point, i int) (list []point) {
			for _, p := range points {
				if min(columns-1, int((p.step-from)/((to-from)/float64(columns)))) == i {
					list = append(list, p)
				}
			}
			return list
		}
		for i := range columns {
			least, largest := extremes(in(c.points, i))
			gotLeast, gotLargest := extremes(in(kept, i))
			if !same(least, gotLeast) || !same(largest, gotLargest) {
				t.Fatalf("column %d spans %v to %v, and was %v to %v", i, gotLeast, gotLargest, least, largest)
			}
		}
		at := 0
		for _, p := range kept {
			for at < len(c.points) && c.points[at].step != p.step {
				at++
			}
			if at == len(c.points) || !same(c.points[at].y, p.y) {
				t.Fatalf("%v is no point of the curve, or out of order", p)
			}
		}
	})
}

// A span has all of its points, and those beside it.
func TestThinSpan(t *testing.T) {
	c := &curve{}
	for i := range 100 {
		c.add(float64(10*i), float64(i))
	}
	for _, x := range []struct {
		Span
		first, last float64
	}{{Span{200, 300}, 190, 310}, {Span{205, 215}, 200, 220}, {Span{-5, 5}, 0, 10}, {Span{985, 5000}, 980, 990}, {Span{2000, 3000}, 990, 990}, {Span{201, 202}, 200, 210}} {
		got := thin(c.points, bySteps, x.Span, 100)
		if len(got) == 0 || got[0].step != x.first || got[len(got)-1].step != x.last {
			t.Errorf("%v: %v", x.Span, got)
		}
	}
}

// Halving keeps the least and the largest value, and halves.
func TestHalveKeepsExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCurve(t)
		before, n := slices.Clone(c.points), len(c.points)
		c.halve()
		a, b := extremes(before)
		least, largest := extremes(c.points)
		if !same(a, least) || !same(b, largest) || len(c.points) > n/2+2 {
			t.Fatalf("%v to %v of %d points became %v to %v of %d", a, b, n, least, largest, len(c.points))
		}
		if !slices.IsSortedFunc(c.points, func(a, b point) int { return int(a.step - b.step) }) {
			t.Fatalf("out of order: %v", c.points)
		}
	})
}

// A step that is taken again takes the place of itself and of those behind it.
func TestAddAgain(t *testing.T) {
	c := &curve{}
	for _, s := range []float64{1, 2, 3, 4} {
		if c.add(s, s) {
			t.Fatal("replaced at", s)
		}
	}
	if !c.add(3, 30) || !slices.Equal(c.points, []point{{1, 1}, {2, 2}, {3, 30}}) {
		t.Error(c.points)
	}
}
