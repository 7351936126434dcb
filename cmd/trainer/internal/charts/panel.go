package charts

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// view is how curves are drawn.
type view struct {
	epochs bool // across are epochs in place of steps
	log    bool // up is logarithmic
	marks  bool // long curves have marks, too: there are more runs than colours
}

// mostMarked is the most points of a curve that have a mark each.
const mostMarked = 25

// look is how a run's curves look.
type look struct {
	steps, train, val color.NRGBA
	band              bool        // steps have the range of their values behind them
	dashes            []vg.Length // of train
	mark              draw.GlyphDrawer
}

// lookOf is the look of the ith of n runs. One run has a colour for each part of
// the data, several have a colour each.
func lookOf(i, n int) look {
	marks := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}}
	if n == 1 {
		return look{steps: color.NRGBA{0x8a, 0x97, 0xa6, 0xff}, train: palette[0], val: palette[1], band: true, mark: marks[0]}
	}
	c := palette[i%len(palette)]
	light := c
	light.A = 0x70
	return look{steps: light, train: c, val: c, dashes: dashed, mark: marks[i/len(palette)%len(marks)]}
}

var dashed = []vg.Length{4, 2.5}

// panel draws a subject of all runs.
func (v view) panel(s subject, runs []*history) *plot.Plot {
	across := "step"
	if v.epochs {
		across = "epoch"
	}
	p := newPlot(titleOf(s.name), across)
	p.Add(grid())
	v.log = v.log && positive(s, runs)
	b := bounds{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for i, h := range runs {
		l, most := lookOf(i, len(runs)), 1
		if c := s.steps(h); c != nil {
			most = len(c.buckets)
			if l.band {
				v.addBand(p, h, c, l.steps)
			}
			w := vg.Length(1)
			if s.train(h) == nil && s.val(h) == nil { // it is all that there is
				l.steps, w = l.train, 1.4
			}
			v.addLine(p, h, c, draw.LineStyle{Color: l.steps, Width: w}, nil)
		}
		if c := s.train(h); c != nil {
			v.addLine(p, h, c, draw.LineStyle{Color: l.train, Width: 1.6, Dashes: l.dashes}, l.mark)
		}
		if c := s.val(h); c != nil {
			v.addLine(p, h, c, draw.LineStyle{Color: l.val, Width: 1.8}, l.mark)
		}
		for _, c := range s.curves(h) {
			b.add(v, h, c, l.band || most == 1)
		}
	}
	b.apply(p, v)
	return p
}

// titleOf is a subject in words.
func titleOf(name string) string {
	r := []rune(shown(name, 40))
	for i := range r {
		if r[i] == '_' {
			r[i] = ' '
		}
	}
	return string(r)
}

// positive reports whether a subject has only numbers above 0, and is no share.
func positive(s subject, runs []*history) bool {
	most := 0.0
	for _, h := range runs {
		for _, c := range s.curves(h) {
			for _, b := range c.buckets {
				if b.low <= 0 {
					return false
				}
				most = max(most, b.high)
			}
		}
	}
	return s.name != "accuracy" && most > 0
}

// x is where a bucket is across.
func (v view) x(h *history, b bucket) float64 {
	if v.epochs {
		return b.step / h.perEpoch
	}
	return b.step
}

// addLine adds a curve's means; mark is nil for one without marks.
func (v view) addLine(p *plot.Plot, h *history, c *curve, style draw.LineStyle, mark draw.GlyphDrawer) {
	var at plotter.XYs
	for _, b := range c.buckets {
		at = append(at, plotter.XY{X: v.x(h, b), Y: b.mean})
	}
	p.Add(&plotter.Line{XYs: at, LineStyle: style})
	if len(at) == 1 && mark == nil {
		mark = draw.CircleGlyph{}
	}
	if mark != nil {
		p.Add(&plotter.Scatter{XYs: v.marked(at), GlyphStyle: draw.GlyphStyle{Color: style.Color, Radius: 2.4, Shape: mark}})
	}
}

// marked are the points of a curve that have a mark.
func (v view) marked(at plotter.XYs) (some plotter.XYs) {
	every := 1
	switch {
	case len(at) <= mostMarked:
	case v.marks:
		every = 1 + len(at)/10
	default:
		return nil
	}
	for i := 0; i < len(at); i += every {
		some = append(some, at[i])
	}
	return some
}

// addBand adds the range of a curve's values, from the least to the largest of each
// bucket.
func (v view) addBand(p *plot.Plot, h *history, c *curve, of color.NRGBA) {
	if c.every == 1 {
		return
	}
	var edge plotter.XYs
	for _, b := range c.buckets {
		edge = append(edge, plotter.XY{X: v.x(h, b), Y: b.high})
	}
	for i := len(c.buckets) - 1; i >= 0; i-- {
		edge = append(edge, plotter.XY{X: v.x(h, c.buckets[i]), Y: c.buckets[i].low})
	}
	of.A = 0x38
	p.Add(&plotter.Polygon{XYs: []plotter.XYs{edge}, Color: of, LineStyle: draw.LineStyle{}})
}

// bounds are the least and largest coordinates.
type bounds struct{ left, right, low, high float64 }

// add makes room for a curve; whole is with the range of its values.
func (b *bounds) add(v view, h *history, c *curve, whole bool) {
	for _, x := range c.buckets {
		b.left, b.right = min(b.left, v.x(h, x)), max(b.right, v.x(h, x))
		if whole {
			b.low, b.high = min(b.low, x.low), max(b.high, x.high)
		} else {
			b.low, b.high = min(b.low, x.mean), max(b.high, x.mean)
		}
	}
}

// apply gives a panel's axes the bounds, with some air.
func (b *bounds) apply(p *plot.Plot, v view) {
	if b.left > b.right { // nothing is drawn
		*b = bounds{0, 1, 0, 1}
	}
	p.X.Min, p.X.Max = min(b.left, 0), max(b.right, b.left+1e-9, 1e-9)
	p.X.Tick.Marker = evenTicks{most: 6, whole: !v.epochs, positive: true}
	if v.log {
		ratio := max(math.Pow(b.high/b.low, 0.05), 1.02)
		p.Y.Min, p.Y.Max = b.low/ratio, b.high*ratio
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
		return
	}
	air := 0.05 * (b.high - b.low)
	if air == 0 {
		air = max(math.Abs(b.high)*0.5, 1e-6)
	}
	low := b.low
	if low > 0 && low < 0.25*b.high {
		low = 0
	}
	p.Y.Min, p.Y.Max = low-air, b.high+air
	p.Y.Tick.Marker = evenTicks{most: 7, positive: low >= 0, below: true}
}
