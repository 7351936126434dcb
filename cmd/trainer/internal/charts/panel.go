package charts

import (
	"math"
	"strings"

	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/svg"
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
	steps, train, val svg.Style
	band              bool // steps have the range of their values behind them
	mark              svg.Mark
}

var marks = []svg.Mark{svg.Circle, svg.Triangle, svg.Square, svg.Diamond}

// lookOf is the look of the ith of n runs. One run has a colour for each part of
// the data, several have a colour each.
func lookOf(i, n int) look {
	if n == 1 {
		return look{steps: svg.Style{Stroke: svg.Grey}, train: solid(svg.Series[0]), val: solid(svg.Series[1]), band: true, mark: marks[0]}
	}
	c := svg.Series[i%len(svg.Series)]
	return look{steps: faint(c), train: dashed(c), val: solid(c), mark: marks[i/len(svg.Series)%len(marks)]}
}

// The lines of curves.
func solid(c svg.Color) svg.Style { return svg.Style{Stroke: c, Width: svg.BoldLine} }
func dashed(c svg.Color) svg.Style {
	return svg.Style{Stroke: c, Width: svg.BoldLine, Dash: []float64{5, 3}}
}
func faint(c svg.Color) svg.Style { return svg.Style{Stroke: c, Opacity: 0.45} }

// panel is a part of a figure: axes, and what is drawn in them.
type panel struct {
	svg.Axes
	draw func(*svg.Plot)
}

// panel draws a subject of all runs.
func (v view) panel(s subject, runs []*history) *panel {
	v.log = v.log && positive(s, runs)
	b := bounds{math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)}
	for i, h := range runs {
		most, l := 1, lookOf(i, len(runs))
		if c := s.steps(h); c != nil {
			most = len(c.buckets)
		}
		for _, c := range s.curves(h) {
			b.add(v, h, c, l.band || most == 1)
		}
	}
	x, y := b.axes(v)
	s.label(&y)
	return &panel{svg.Axes{Title: titleOf(s.name), X: x, Y: y}, func(p *svg.Plot) {
		for i, h := range runs {
			v.drawRun(p, s, h, lookOf(i, len(runs)))
		}
	}}
}

// drawRun draws a run's curves of a subject.
func (v view) drawRun(p *svg.Plot, s subject, h *history, l look) {
	if c := s.steps(h); c != nil {
		if l.band {
			v.addBand(p, h, c, l.steps.Stroke)
		}
		if s.train(h) == nil && s.val(h) == nil { // it is all that there is
			l.steps = svg.Style{Stroke: l.train.Stroke, Width: svg.ThinLine}
		}
		v.addLine(p, h, c, l.steps, svg.NoMark)
	}
	if c := s.train(h); c != nil {
		v.addLine(p, h, c, l.train, l.mark)
	}
	if c := s.val(h); c != nil {
		v.addLine(p, h, c, l.val, l.mark)
	}
}

// label gives the ticks of a subject its unit.
func (s subject) label(y *svg.Axis) {
	low := max(0, y.Low)
	switch {
	case text.IsShare(s.name):
		svg.Percent(y.Ticks)
	case y.Log:
	case strings.HasSuffix(s.name, "_bytes"):
		y.Ticks = svg.SizeTicks(low, y.High, mostTicks)
	case strings.HasSuffix(s.name, "_s") && !strings.HasSuffix(s.name, perSecond):
		y.Ticks = svg.TimeTicks(low, y.High, mostTicks)
	}
}

// perSecond ends the names of rates.
const perSecond = "_per_s"

// titleOf is a subject in words.
func titleOf(name string) string {
	if what, rate := strings.CutSuffix(name, perSecond); rate {
		name = what + "/s"
	}
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
	return !text.IsShare(s.name) && most > 0
}

// x is where a bucket is across.
func (v view) x(h *history, b bucket) float64 {
	if v.epochs {
		return b.step / h.perEpoch
	}
	return b.step
}

// addLine adds a curve's means: a line up to each gap, or a mark where that is one value.
func (v view) addLine(p *svg.Plot, h *history, c *curve, style svg.Style, mark svg.Mark) {
	var part, marked []svg.Point
	some := v.marked(c.buckets)
	end := func() {
		switch {
		case len(part) > 1:
			p.Line(part, style)
		case mark == svg.NoMark || len(some) < len(c.buckets):
			p.Marks(part, svg.Circle, style.Stroke)
		}
		part = nil
	}
	for _, b := range c.buckets {
		if b.gap {
			end()
		}
		part = append(part, svg.Point{X: v.x(h, b), Y: b.mean})
	}
	end()
	if mark != svg.NoMark {
		for _, b := range some {
			marked = append(marked, svg.Point{X: v.x(h, b), Y: b.mean})
		}
		p.Marks(marked, mark, style.Stroke)
	}
}

// marked are the values of a curve that have a mark.
func (v view) marked(at []bucket) (some []bucket) {
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
func (v view) addBand(p *svg.Plot, h *history, c *curve, of svg.Color) {
	if c.every == 1 {
		return
	}
	var edge []svg.Point
	for _, b := range c.buckets {
		edge = append(edge, svg.Point{X: v.x(h, b), Y: b.high})
	}
	for i := len(c.buckets) - 1; i >= 0; i-- {
		edge = append(edge, svg.Point{X: v.x(h, c.buckets[i]), Y: c.buckets[i].low})
	}
	p.Area(edge, svg.Style{Fill: of, Opacity: 0.22})
}

// mostTicks is about how many ticks an axis has that goes up.
const mostTicks = 7

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

// axes are axes with these bounds, and some air.
func (b *bounds) axes(v view) (x, y svg.Axis) {
	if b.left > b.right { // nothing is drawn
		*b = bounds{0, 1, 0, 1}
	}
	x = svg.Axis{Label: "step", Low: min(b.left, 0), High: max(b.right, b.left+1e-9, 1e-9)}
	if v.epochs {
		x.Label, x.Ticks = "epoch", svg.Ticks(x.Low, x.High, 6)
	} else {
		x.Ticks = svg.WholeTicks(x.Low, x.High, 6)
	}
	if v.log {
		ratio := max(math.Pow(b.high/b.low, 0.05), 1.02)
		y = svg.Axis{Low: b.low / ratio, High: b.high * ratio, Log: true}
		y.Ticks = svg.LogTicks(y.Low, y.High)
		return x, y
	}
	if b.low == 0 && b.high == 0 {
		b.high = 1
	}
	air := 0.05 * (b.high - b.low)
	if air == 0 {
		air = math.Abs(b.high) / 2
	}
	low := b.low
	if low > 0 && low < 0.25*b.high {
		low = 0
	}
	y = svg.Axis{Low: low - air, High: b.high + air}
	from := y.Low
	if low >= 0 {
		from = max(0, from)
	}
	y.Ticks = svg.Ticks(from, y.High, mostTicks)
	return x, y
}
