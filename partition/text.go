package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/segment"
)

// Table is the plan in four tables: the load of each stage, its segments and the
// cause of its place, and for each device its peak by usage, and its limit. A line has at
// most width characters (0: 100); of a wider table, texts are cut and columns left out.
func (p *Plan) Table(width int) string {
	return p.stageTable(width) + "\n" + p.segmentTable(width) + "\n" + p.peakTable(width) + "\n" + p.limitTable(width)
}

func (p *Plan) stageTable(width int) string {
	rows := [][]string{{"stage", "device", "layers", "parameters", "flops", "recomputed", "in", "out"}}
	for _, s := range p.Stages {
		rows = append(rows, []string{
			fmt.Sprint(s.Index), p.devicesText(s.Index), blocksText(s.Blocks), units.Thousands(s.Parameters),
			countText(s.Flops), countText(s.Recomputed), units.Bytes(s.BytesIn), units.Bytes(s.BytesOut),
		})
	}
	return align(rows, width, map[int]bool{1: true, 2: true}, 5, 6)
}

func (p *Plan) segmentTable(width int) string {
	rows := [][]string{{"stage", "device", "segments", "cause"}}
	segments := p.segmentsOf()
	for _, s := range p.Stages {
		rows = append(rows, []string{fmt.Sprint(s.Index), p.devicesText(s.Index), passesText(segments[s.Index]), s.Cause})
	}
	return align(rows, width, map[int]bool{1: true, 2: true, 3: true})
}

// mostNamed is the most devices of a stage that are all named.
const mostNamed = 16

// devicesText names a stage's devices: "cpu:0", with replicas "cpu:0 cpu:2", and with many "cpu:0 … cpu:63 (64)".
func (p *Plan) devicesText(stage int) string {
	var list []string
	all := p.DevicesOf(stage)
	for i, d := range all {
		if len(all) <= mostNamed || i == 0 || i == len(all)-1 {
			list = append(list, string(p.options.Devices[d].ID))
		}
	}
	if len(all) > mostNamed {
		return fmt.Sprintf("%s … %s (%s)", list[0], list[1], units.Thousands(len(all)))
	}
	return strings.Join(list, " ")
}

// recomputes reports whether any value is computed a second time.
func (p *Plan) recomputes() bool {
	return slices.ContainsFunc(p.Stages, func(s Stage) bool { return s.Recomputed > 0 })
}

// usages is the number of usages that are listed: without caches, the last, where there
// are none.
func (p *Plan) usages() int {
	if slices.ContainsFunc(p.Memory, func(f Forecast) bool { return f.PeakBy[device.Cache] > 0 }) {
		return device.NumUsages
	}
	return int(device.Cache)
}

// peakTable lists the peak of a step without a limit for each device that has a
// stage, and the peak of each usage.
func (p *Plan) peakTable(width int) string {
	rows := [][]string{{"device", "peak"}}
	for u := range p.usages() {
		rows[0] = append(rows[0], device.Usage(u).String())
	}
	for i := range p.Memory {
		f := &p.Memory[i]
		row := []string{string(p.options.Devices[f.Device].ID), units.Bytes(f.Peak)}
		for _, b := range f.PeakBy[:p.usages()] {
			row = append(row, units.Bytes(b))
		}
		rows = append(rows, row)
	}
	return align(rows, width, map[int]bool{0: true}, 6, 5)
}

// limitTable lists each device's limit; the floor, and the launch that needs it; the
// pieces that segments are; the bytes that move per step because the limit is below
// the peak; and the time for which it works in a step.
func (p *Plan) limitTable(width int) string {
	rows := [][]string{{"device", "limit", "floor", "of", "segments", "moved", "time"}}
	busy := p.busySeconds()
	for i := range p.Memory {
		f := &p.Memory[i]
		limit := "none"
		if f.Limit > 0 {
			limit = units.Bytes(f.Limit)
		}
		rows = append(rows, []string{
			string(p.options.Devices[f.Device].ID), limit, units.Bytes(f.Floor), f.FloorOf, p.cutText(), units.Bytes(f.Moved()), units.Seconds(busy[f.Device]),
		})
	}
	return align(rows, width, map[int]bool{0: true, 3: true, 4: true}, 3, 4)
}

// cutText names where segments are cut: "blocks, parts, ranges".
func (p *Plan) cutText() string {
	text := p.grain.String()
	if p.options.cuts.On() {
		text += ", parts"
	}
	if p.ranges.On() {
		text += ", ranges"
	}
	return text
}

// Shortages says, for each device with less memory than the plan would take, what
// the plan does about it.
func (p *Plan) Shortages() (list []string) {
	for i := range p.Memory {
		f := &p.Memory[i]
		if !f.Tight() {
			continue
		}
		does := []string{"segments are " + p.grain.String()}
		if p.grain != segment.WholePhases {
			does[0] = "segments are cut at " + p.grain.String()
		}
		if c := p.options.cuts; c.On() {
			does = append(does, fmt.Sprintf("what takes more than %s with its inputs is computed in %d parts", units.Bytes(c.Bytes), c.Count))
		}
		if r := p.ranges; r.On() {
			does = append(does, fmt.Sprintf("updates of large tensors are cut into ranges of %s or more", units.Bytes(4*int64(r.Elems))))
		}
		if r := p.options.Recompute; r != p.options.asked && p.recomputes() {
			does = append(does, fmt.Sprintf("values are computed again as by partition.recompute: %s", r))
		}
		if f.Moved() > 0 {
			does = append(does, fmt.Sprintf("%s move in each %s", units.Bytes(f.Moved()), p.unit()))
		}
		list = append(list, fmt.Sprintf("%s has %s of memory and a %s would take %s: %s",
			p.options.Devices[f.Device].ID, units.Bytes(f.Limit), p.unit(), units.Bytes(f.Peak), strings.Join(does, "; ")))
	}
	return list
}

// segmentsOf is the segments of each stage.
func (p *Plan) segmentsOf() [][]*Segment {
	of := make([][]*Segment, len(p.Stages))
	for i := range p.Segments {
		s := &p.Segments[i]
		of[s.Stage] = append(of[s.Stage], s)
	}
	return of
}

// passesText is "F BU U": the passes of each segment. Several in a row are
// counted: "F×3". "BR" is the additions of the sums that B writes, "BS" cuts them
// into ranges. More words than mostWords are summed up by word.
func passesText(segments []*Segment) string {
	var words []counted
	for i := 0; i < len(segments); {
		word, n, sums, cuts := segments[i].Passes.String(), 0, 0, 0
		for i+n < len(segments) && (n == 0 || segments[i+n].Piece != "" && segments[i+n].Passes == segments[i].Passes) {
			if segments[i+n].Reduce.Graph != nil {
				sums++
			}
			if segments[i+n].Split.Graph != nil {
				cuts++
			}
			n++
		}
		i += n
		words = append(words, counted{word, n})
		if sums > 0 {
			words = append(words, counted{word + "R", sums})
		}
		if cuts > 0 {
			words = append(words, counted{word + "S", cuts})
		}
	}
	if len(words) > mostWords {
		words = addUp(words)
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.String()
	}
	return strings.Join(texts, " ")
}

// mostWords bounds the width of the column of segments. With pieces of blocks and
// updates between them, a stage may have hundreds of words.
const mostWords = 16

// counted is a word that comes n times.
type counted struct {
	word string
	n    int
}

// String is "F", or "F×3".
func (c counted) String() string {
	if c.n == 1 {
		return c.word
	}
	return fmt.Sprintf("%s×%d", c.word, c.n)
}

// addUp adds up the counts of each word, in order of first use.
func addUp(words []counted) (sums []counted) {
	for _, w := range words {
		i := slices.IndexFunc(sums, func(s counted) bool { return s.word == w.word })
		if i < 0 {
			sums = append(sums, w)
			continue
		}
		sums[i].n += w.n
	}
	return sums
}

// blocksText lists blocks, long lists by their ends.
func blocksText(blocks []string) string {
	switch n := len(blocks); {
	case n == 0:
		return "-"
	case n > 4:
		return fmt.Sprintf("%s … %s (%d)", blocks[0], blocks[n-1], n)
	}
	return strings.Join(blocks, " ")
}

// align lays out a table in which the columns of left are texts, and the others
// numbers. Where it is wider than width, texts are cut, the last column first, which is
// prose; and then the columns of drop are left out.
func align(rows [][]string, width int, left map[int]bool, drop ...int) string {
	l := columns.Layout{Width: width, Drop: drop}
	for i := range rows[0] {
		if left[i] {
			l.Cut = append([]int{i}, l.Cut...)
		} else {
			l.Right = append(l.Right, i)
		}
	}
	if n := len(rows[0]) - 1; left[n] {
		l.Prose = []int{n}
	}
	return columns.Format(rows, l)
}

// DOT is the plan for Graphviz: a cluster per stage, a box per segment, an
// edge for the bytes that one segment reads of another.
func (p *Plan) DOT() string {
	var b strings.Builder
	b.WriteString("digraph plan {\n  rankdir=LR;\n  node [shape=box, fontname=monospace];\n")
	segments := p.segmentsOf()
	for _, st := range p.Stages {
		fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%q;\n", st.Index, fmt.Sprintf("stage %d on %s: %s", st.Index, p.devicesText(st.Index), blocksText(st.Blocks)))
		for _, s := range segments[st.Index] {
			fmt.Fprintf(&b, "    %q [label=\"%s\\n%d nodes\"];\n", s.Name, s.Name, len(s.First.Graph.Nodes))
		}
		b.WriteString("  }\n")
	}
	maker := map[*graph.Value]int{}
	for i, s := range p.Segments {
		flow := map[int]int64{}
		for j, in := range s.First.In {
			if from, ok := maker[in.Value]; ok {
				flow[from] += s.First.Graph.Inputs[j].Meta.Bytes()
			}
		}
		for _, from := range slices.Sorted(maps.Keys(flow)) {
			if n := flow[from]; n > 0 {
				fmt.Fprintf(&b, "  %q -> %q [label=%q];\n", p.Segments[from].Name, s.Name, units.Bytes(n))
			}
		}
		for _, o := range s.First.Out {
			maker[o.Value] = i
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// scaled prints n in the largest unit that is at most n. Each unit is step times
// the one before.
func scaled(n int64, step float64, units ...string) string {
	x, u := float64(n), 0
	for x >= step && u < len(units)-1 {
		x /= step
		u++
	}
	if u == 0 {
		return fmt.Sprintf("%d%s", n, units[0])
	}
	return fmt.Sprintf("%.1f%s", x, units[u])
}

// exactText is a number of bytes, rounded up to whole KiB, as a config states it.
func exactText(n int64) string { return fmt.Sprintf("%dKiB", (n+1023)/1024) }

func countText(n int64) string { return scaled(n, 1000, "", " k", " M", " G", " T", " P") }

// usageText lists the usages that are not zero.
func usageText(m [device.NumUsages]int64) string {
	var s []string
	for u, b := range m {
		if b > 0 {
			s = append(s, fmt.Sprintf("%v %s", device.Usage(u), units.Bytes(b)))
		}
	}
	return strings.Join(s, ", ")
}

// Elsewhere says, a line for each, which blocks and nodes are not where they would be
// otherwise, since a device does not run them.
func (p *Plan) Elsewhere() (lines []string) {
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range p.cut.Refused {
		add(line)
	}
	for _, m := range p.place.Moved {
		on := func(group int) device.ID { return p.options.Devices[p.cut.Device[group]].ID }
		add(fmt.Sprintf("%s is on %s, since %s does not run it: %s", m.Node.Op.Kind(), on(m.To), on(m.From), cut.WhyNot(m.Why)))
	}
	return lines
}

// movedHere says which nodes a stage has because another device does not run them.
func (p *Plan) movedHere(stage int) string {
	var list []string
	for _, m := range p.place.Moved {
		what := fmt.Sprintf("has %s, which %s does not run", m.Node.Op.Kind(), p.options.Devices[p.cut.Device[m.From]].ID)
		if m.To == stage && !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	if list == nil {
		return ""
	}
	return "; " + strings.Join(list, "; ")
}
