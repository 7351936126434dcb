package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/svg"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// drawing is the blocks of a plan with their places.
type drawing struct {
	p      *partition.Plan
	stages [][]shown      // by stage
	inner  []float64      // by stage: the width within its frame
	at     map[string]pos // by block
	wide   float64
}

// shown is a box: a block, or several that are drawn as one.
type shown struct {
	label  string
	blocks []string
	x      float64
}

// pos is the box of a block.
type pos struct {
	stage int
	box   int // over all stages
	x     float64
}

func newDrawing(p *partition.Plan) *drawing {
	d := &drawing{p: p, at: map[string]pos{}}
	x, box := svg.Margin, 0
	for s := range p.Stages {
		if s > 0 {
			x += stageGap - 2*stagePad
		}
		x += stagePad
		list, left := boxes(p.Stages[s].Blocks), x
		for i := range list {
			if i > 0 {
				x += blockGap
			}
			list[i].x = x
			for _, b := range list[i].blocks {
				d.at[b] = pos{s, box, x}
			}
			x += blockWide
			box++
		}
		x = max(x, left+d.textWide(s))
		d.stages, d.inner = append(d.stages, list), append(d.inner, x-left)
		x += stagePad
	}
	d.wide = x - svg.Margin
	return d
}

// textWide is the width of a stage's title and of the start of its cause.
func (d *drawing) textWide(s int) float64 {
	return max(svg.Head(0, 0, d.title(s)).Wide(), min(mostCause, svg.Small(0, 0, d.p.Stages[s].Cause).Wide()))
}

// title names a stage and its devices.
func (d *drawing) title(s int) string {
	var ids []string
	for _, i := range d.p.DevicesOf(s) {
		ids = append(ids, string(d.p.Specs()[i].ID))
	}
	return fmt.Sprintf("stage %d · %s", s, strings.Join(ids, " "))
}

// boxes are the boxes of a stage: of many blocks the first and the last ones, and one
// for those between.
func boxes(blocks []string) (list []shown) {
	one := func(b string) { list = append(list, shown{label: b, blocks: []string{b}}) }
	if len(blocks) <= mostShown {
		for _, b := range blocks {
			one(b)
		}
		if len(blocks) == 0 {
			list = append(list, shown{label: "(no layers)"})
		}
		return list
	}
	const ends = mostShown / 2
	for _, b := range blocks[:ends-1] {
		one(b)
	}
	rest := blocks[ends-1 : len(blocks)-ends+1]
	list = append(list, shown{label: fmt.Sprintf("%d blocks", len(rest)), blocks: rest})
	for _, b := range blocks[len(blocks)-ends+1:] {
		one(b)
	}
	return list
}

// flow is bytes per microbatch from one box to another.
type flow struct {
	from, to pos
	bytes    int64
	values   []string
}

// flows are the forward values that blocks read of others, by pair of boxes.
func (d *drawing) flows() []*flow {
	byPair := map[[2]int]*flow{}
	seen := map[[2]int]bool{} // value and reading box
	for _, n := range d.p.Graph.Nodes {
		if n.Phase != graph.Forward || n.Layer == nil {
			continue
		}
		to, ok := d.at[n.Layer.Block]
		for _, v := range n.In {
			if !ok || v.Kind != graph.Computed || v.Node.Phase != graph.Forward || v.Node.Layer == nil {
				continue
			}
			from, known := d.at[v.Node.Layer.Block]
			if !known || from.box == to.box || seen[[2]int{v.ID, to.box}] {
				continue
			}
			seen[[2]int{v.ID, to.box}] = true
			k := [2]int{from.box, to.box}
			if byPair[k] == nil {
				byPair[k] = &flow{from: from, to: to}
			}
			byPair[k].bytes += v.Meta.Bytes()
			byPair[k].values = append(byPair[k].values, v.Name)
		}
	}
	var list []*flow
	for _, f := range byPair {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b *flow) int {
		return cmp.Or(cmp.Compare(a.to.box-a.from.box, b.to.box-b.from.box), cmp.Compare(a.from.box, b.from.box))
	})
	return list
}

// draw draws stages, blocks and edges from a height on, and returns the bottom.
func (d *drawing) draw(c *svg.Picture, top float64) float64 {
	flows, above := d.flows(), 0.0
	for _, f := range flows {
		if f.to.box-f.from.box > 1 {
			above++
		}
	}
	arcs := 18 * min(above, 4)
	y := top + arcs + stageAbove
	for s, list := range d.stages {
		d.frame(c, s, list, y)
		for _, b := range list {
			c.Rect(svg.Box{X: b.x, Y: y, W: blockWide, H: blockHigh}, 6, svg.Style{Fill: svg.White, Stroke: svg.Edge, Hint: strings.Join(b.blocks, " ")})
			c.Text(svg.Text{X: b.x + blockWide/2, Y: y + blockHigh/2 + 4, Words: svg.Cut(b.label, svg.TextSize, blockWide-8), Anchor: svg.Middle, Inside: true})
		}
	}
	level := 0
	for _, f := range flows {
		if f.to.box-f.from.box == 1 {
			f.edge(c, y)
			continue
		}
		f.arc(c, y, top+arcs-18*float64(level%4))
		level++
	}
	return y + blockHigh + 62
}

// frame draws a stage around its blocks.
func (d *drawing) frame(c *svg.Picture, s int, list []shown, y float64) {
	st, x, inner := &d.p.Stages[s], list[0].x, d.inner[s]
	around := svg.Box{X: x - stagePad, Y: y - stageAbove + 8, W: inner + 2*stagePad, H: stageAbove + blockHigh + 36}
	c.Rect(around, 10, svg.Style{Fill: svg.Tints[s%len(svg.Tints)], Stroke: svg.Frame, Hint: st.Cause})
	c.Text(svg.Head(x, y-16, d.title(s)))
	c.Text(svg.Small(x, y+blockHigh+20, units.Thousands(st.Parameters)+" parameters").Fit(inner))
	c.Text(svg.Small(x, y+blockHigh+34, st.Cause).Fit(inner))
}

// style is how the arrow is drawn: one that crosses a cut stands out.
func (f *flow) style() svg.Style {
	if f.from.stage != f.to.stage {
		return svg.Style{Stroke: peerFill, Width: svg.BoldLine}
	}
	return svg.Style{Stroke: svg.Faint, Width: svg.ThinLine}
}

// edge is an arrow to the next box.
func (f *flow) edge(c *svg.Picture, y float64) {
	x1, x2, mid := f.from.x+blockWide, f.to.x, y+blockHigh/2
	c.Arrow(svg.Line(svg.Point{X: x1 + 1, Y: mid}, svg.Point{X: x2 - 1, Y: mid}), f.style())
	c.Text(svg.Small((x1+x2)/2, mid-6, units.Bytes(f.bytes)).At(svg.Middle))
}

// arc is an arrow over boxes between.
func (f *flow) arc(c *svg.Picture, y, top float64) {
	x1, x2 := f.from.x+blockWide/2+10, f.to.x+blockWide/2-10
	c.Arrow(svg.Curve(svg.Point{X: x1, Y: y}, svg.Point{X: x1, Y: top}, svg.Point{X: x2, Y: top}, svg.Point{X: x2, Y: y - 1}), f.style())
	c.Text(svg.Small((x1+x2)/2, top+(y-top)*0.25-4, units.Bytes(f.bytes)).At(svg.Middle))
}
