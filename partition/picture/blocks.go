package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
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
	x, box := margin, 0
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
	d.wide = x - margin
	return d
}

// textWide is about the width of a stage's title and of the start of its cause.
func (d *drawing) textWide(s int) float64 {
	return max(7.4*float64(len(d.title(s))), min(mostCause, letterWide*float64(len(d.p.Stages[s].Cause)+1)))
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
func (d *drawing) draw(c *canvas, top float64) float64 {
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
			c.box(b.x, y, blockWide, blockHigh, 6, "fill:#fff;stroke:#8fa1b3", strings.Join(b.blocks, " "))
			c.text(b.x+blockWide/2, y+blockHigh/2+4, "middle", "", "%s", short(b.label, 14))
		}
	}
	level := 0
	for _, f := range flows {
		if f.to.box-f.from.box == 1 {
			d.edge(c, f, y)
			continue
		}
		d.arc(c, f, y, top+arcs-18*float64(level%4))
		level++
	}
	return y + blockHigh + 62
}

// frame draws a stage around its blocks.
func (d *drawing) frame(c *canvas, s int, list []shown, y float64) {
	st, x, inner := &d.p.Stages[s], list[0].x, d.inner[s]
	c.box(x-stagePad, y-stageAbove+8, inner+2*stagePad, stageAbove+blockHigh+36, 10, "fill:"+fills[s%len(fills)]+";stroke:#c3cfda", st.Cause)
	c.text(x, y-16, "start", "stage", "%s", d.title(s))
	room := int(inner / letterWide)
	c.text(x, y+blockHigh+20, "start", "small", "%s", short(fmt.Sprintf("%s parameters", count(st.Parameters)), room))
	c.text(x, y+blockHigh+34, "start", "small", "%s", short(st.Cause, room))
}

// edge is an arrow to the next box.
func (d *drawing) edge(c *canvas, f *flow, y float64) {
	class := "edge"
	if f.from.stage != f.to.stage {
		class = "cut"
	}
	x1, x2, mid := f.from.x+blockWide, f.to.x, y+blockHigh/2
	c.line(x1+1, mid, x2-1, mid, class)
	c.text((x1+x2)/2, mid-6, "middle", "small", "%s", units.Bytes(f.bytes))
}

// arc is an arrow over boxes between.
func (d *drawing) arc(c *canvas, f *flow, y, top float64) {
	class := "edge"
	if f.from.stage != f.to.stage {
		class = "cut"
	}
	x1, x2 := f.from.x+blockWide/2+10, f.to.x+blockWide/2-10
	c.add(`<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" class="%s"/>`, x1, y, x1, top, x2, top, x2, y-1, class)
	c.text((x1+x2)/2, top+(y-top)*0.25-4, "middle", "small", "%s", units.Bytes(f.bytes))
}

// short cuts a text to n letters.
func short(text string, n int) string {
	if r := []rune(text); len(r) > n && n > 1 {
		return string(r[:n-1]) + "…"
	}
	return text
}

// count is a number with its unit: "8.3 k".
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f G", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// exactCount is a number of three digits with its unit: "1.25 M".
func exactCount(n float64) string {
	for _, u := range []struct {
		least float64
		name  string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if n >= u.least {
			return fmt.Sprintf("%.3g%s", n/u.least, u.name)
		}
	}
	return fmt.Sprintf("%.3g", n)
}
