package parts

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
)

// Cuts says which nodes of a graph are computed in parts. The zero value cuts none.
type Cuts struct {
	Count int         // parts of a node that is cut over samples, and the most of one that is cut over channels
	Bytes int64       // a node is cut from so many bytes on, of what can be cut
	Least int64       // the most bytes that a part needs
	nodes map[int]way // by Node.ID
}

// way is how a node is cut.
type way struct {
	kind     string         // of the node's op
	samples  []bool         // the inputs that are cut over samples; nil if it is cut over channels
	channels []ops.Channels // how it is cut over channels, and how each part of that is
	ranges   ranges         // by the first of these
}

// suits reports whether n can be cut in that way: in a graph of other nodes, what has the ID of a node that
// is cut may be any other.
func (w way) suits(n *graph.Node) bool {
	if n.Op.Kind() != w.kind {
		return false
	}
	if w.samples == nil {
		ways := ops.ByChannels(n)
		for i, by := range w.channels {
			if i == len(ways) || !by.Equal(ways[i]) || by.Of(n) < 2 {
				return false
			}
		}
		return true
	}
	if len(n.In) != len(w.samples) {
		return false
	}
	for i, v := range n.In {
		if w.samples[i] && !ops.HasSamples(v, n) {
			return false
		}
	}
	return true
}

// On reports whether any node is cut.
func (c Cuts) On() bool { return len(c.nodes) > 0 }

// most is the most parts of a node. More hardly lower the floor, and each is a launch.
const most = 64

// share is how much of a device's memory a node may take with what can be cut of it, before
// it is cut: what joins its parts takes twice as much.
const share = 4

// Choose finds the nodes of a graph to compute in so many parts, for devices with limit
// bytes of memory. scratch is the working memory of a node's kernel.
func Choose(g *graph.Graph, limit int64, count int, scratch func(n *graph.Node) int64, check *stop.Check) Cuts {
	c := Cuts{Count: count, Bytes: limit / share, nodes: map[int]way{}}
	asked := make([]bool, len(g.Values)) // by others than nodes
	for _, v := range g.Outputs {
		asked[v.ID] = true
	}
	for _, a := range g.Accums {
		asked[a.Part.ID] = true
	}
	if count > most {
		return c
	}
	for _, n := range stop.Each(check, g.Nodes) {
		if n.Phase == graph.Update || n.Conditional || n.Layer != nil && n.Layer.Iterations > 0 {
			continue
		}
		fetched := slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return asked[v.ID] })
		if cut, ok := ops.BySamples(n); ok && fewest(n, cut) >= count && !fetched {
			c.consider(n, way{kind: n.Op.Kind(), samples: cut}, count, limit, scratch)
		} else if ways := ops.ByChannels(n); len(ways) > 0 && !keepsAny(ways[0], n, asked) {
			w := way{kind: n.Op.Kind(), channels: ways[:1], ranges: rangesOf(n, ways)}
			if len(ways) > 1 && c.twice(n, ways) {
				w.channels = ways
			}
			if of := w.ranges.parts(ways[0].Of(n), count); of > 1 {
				c.consider(n, w, of, limit, scratch)
			}
		}
	}
	return c
}

// keeps reports whether parts of result k over channels have the samples, too: then nothing joins them unless a whole
// node reads them.
func keeps(by ops.Channels, k int) bool { return by.Out[k] == 1 }

// keepsAny reports whether one of those that are asked for is such a result.
func keepsAny(by ops.Channels, n *graph.Node, asked []bool) bool {
	for k, v := range n.Out {
		if keeps(by, k) && asked[v.ID] {
			return true
		}
	}
	return false
}

// fewest is the samples of a node that is cut over them: the fewest indices of dimension 0 of what is cut.
func fewest(n *graph.Node, cut []bool) int {
	samples := n.Out[0].Meta.Shape[0]
	for i, v := range n.In {
		if cut[i] {
			samples = min(samples, v.Meta.Shape[0])
		}
	}
	return samples
}

// ranges is how the channels of a node are cut by one of its ways.
type ranges struct {
	label string // of all ranges: with the number of a range it tells values apart
	most  int
}

// channels are those of convolutions. A matrix that is a sum over rows has rows and columns itself: each range of its rows
// may be cut again, so these are fewer. A vector that is such a sum is cut alike, and so reads the same ranges.
var (
	channels = ranges{"channels", most}
	rows     = ranges{"rows", 16}
	columns  = ranges{"columns", 8}
	planes   = ranges{"planes", 8} // of norms, which each read all parts over samples and are read by them
)

// rangesOf is how a node is cut by the first of its ways.
func rangesOf(n *graph.Node, ways []ops.Channels) ranges {
	if keeps(ways[0], 0) {
		return planes
	}
	if n.In[0].Meta.Shape.Rank() == 4 {
		return channels
	}
	return rows
}

// parts is the parts that so many channels are cut into: each has two or more, since the sums over a
// single one would be another loop.
func (r ranges) parts(channels, count int) int { return min(count, r.most, channels/2) }

// twice reports whether a node is to be cut by both ways: parts by the first alone would each need much memory,
// for what is whole in all of them.
func (c *Cuts) twice(n *graph.Node, ways []ops.Channels) bool {
	var whole int64
	for i, v := range n.In {
		if ways[0].In[i] < 0 {
			whole += v.Meta.Bytes()
		}
	}
	return whole > c.Bytes && columns.parts(ways[1].Of(n), c.Count) > 1
}

// consider cuts a node into so many parts if it needs much memory.
func (c *Cuts) consider(n *graph.Node, w way, count int, limit int64, scratch func(n *graph.Node) int64) {
	var parted, whole, least int64 // least: of a part
	for i, v := range n.In {
		switch bytes := v.Meta.Bytes(); {
		case slices.Contains(n.In[:i], v):
		case w.samples != nil && w.samples[i], w.samples == nil && w.channels[0].In[i] >= 0:
			parted += bytes
			least += bytes / int64(count)
		case len(w.channels) > 1:
			parted += bytes
			least += bytes / int64(columns.parts(w.channels[1].Of(n), c.Count))
		default:
			whole += bytes
			least += bytes
		}
	}
	for _, v := range n.Out {
		parted += v.Meta.Bytes()
		least += v.Meta.Bytes() / int64(count)
	}
	if parted > c.Bytes || parted+whole+scratch(n) > limit {
		c.nodes[n.ID] = w
		c.Least = max(c.Least, least)
	}
}

// Apply is the graph with the nodes in parts. A graph of the same nodes with another number of
// samples gets the same parts.
func (c Cuts) Apply(g *graph.Graph, check *stop.Check) *graph.Graph {
	if !c.On() {
		return g
	}
	b := &builder{
		c: c, g: new(graph.Graph), made: map[*graph.Value][]*graph.Value{}, across: map[*graph.Value][]*graph.Value{},
		taken: map[*graph.Value][]*graph.Value{},
		unit:  map[*graph.Value]int{}, ranges: map[along]*graph.Value{}, instead: map[*graph.Value]*graph.Value{},
		stands: map[*graph.Node]*graph.Node{},
	}
	*b.g = *g
	b.g.Nodes, b.g.Values = nil, slices.Clone(g.Values)
	for _, v := range g.Values {
		if v != nil && v.Node != nil {
			b.next = max(b.next, v.Node.ID+1)
		}
	}
	for _, n := range stop.Each(check, g.Nodes) {
		b.next = max(b.next, n.ID+1)
	}
	for _, n := range stop.Each(check, g.Nodes) {
		switch w, cut := c.nodes[n.ID]; {
		case !cut || !w.suits(n):
			b.flush()
			b.rewire(n)
		case w.samples != nil && b.setUnit(n, w.samples):
			b.bySamples(n)
		case w.samples != nil:
			b.flush()
			b.rewire(n)
		default:
			b.flush()
			b.byChannels(n, w.channels, w.ranges)
		}
	}
	b.flush()
	b.g.Outputs = slices.Clone(g.Outputs)
	for i, v := range b.g.Outputs {
		b.g.Outputs[i] = b.now(v)
	}
	b.g.Assigns = slices.Clone(g.Assigns)
	for i, a := range b.g.Assigns {
		b.g.Assigns[i].New = b.now(a.New)
	}
	b.g.Accums = slices.Clone(g.Accums)
	for i, a := range b.g.Accums {
		b.g.Accums[i].Part = b.now(a.Part)
	}
	return b.g
}

// builder makes the graph of a call of [Cuts.Apply], which owns it. Its tables are by values of
// the whole graph.
type builder struct {
	c       Cuts
	g       *graph.Graph
	next    int                             // the ID of the next node
	run     []*graph.Node                   // nodes cut over samples that follow each other, and are not added yet
	made    map[*graph.Value][]*graph.Value // the parts of a value that is computed in parts
	across  map[*graph.Value][]*graph.Value // the same of one that is computed in parts over channels, along dimension 1
	taken   map[*graph.Value][]*graph.Value // the parts over samples that are copied out of another value
	unit    map[*graph.Value]int            // of a value with parts: the indices of dimension 0 for each sample
	ranges  map[along]*graph.Value          // the ranges of a value's channels
	instead map[*graph.Value]*graph.Value   // the value that takes its place: its parts joined, or made by another node
	stands  map[*graph.Node]*graph.Node     // by node of the whole graph: the one that has its place; of parts, the first
}

// along names a range of an axis of a value.
type along struct {
	of    *graph.Value
	axis  int
	label string
}

// of is the forward node that n differentiates or computes again.
func (b *builder) of(n *graph.Node) *graph.Node {
	if x := b.stands[n.Of]; x != nil {
		return x
	}
	return n.Of
}

// now is the value in the new graph that stands for a whole one.
func (b *builder) now(v *graph.Value) *graph.Value {
	if w := b.instead[v]; w != nil {
		return w
	}
	return v
}

// rewire adds a whole node.
func (b *builder) rewire(n *graph.Node) {
	in, same := make([]*graph.Value, len(n.In)), b.of(n) == n.Of
	for i, v := range n.In {
		in[i] = b.whole(v, n)
		same = same && in[i] == v
	}
	if same {
		b.g.Nodes = append(b.g.Nodes, n)
		return
	}
	m := new(graph.Node)
	*m = *n
	m.In, m.Out, m.Of = in, nil, b.of(n)
	b.stands[n] = m
	b.g.Nodes = append(b.g.Nodes, m)
	for _, v := range n.Out {
		b.replace(v, m)
	}
}

// replace has a node make v.
func (b *builder) replace(v *graph.Value, by *graph.Node) {
	w := new(graph.Value)
	*w = *v
	w.Node, w.Out = by, len(by.Out)
	by.Out = append(by.Out, w)
	b.g.Values[v.ID], b.instead[v] = w, w
}

// setUnit notes where the parts of a node over samples begin, and those of its inputs. It reports whether all can
// begin there: parts of samples and parts of rows, several for each sample, may begin elsewhere.
func (b *builder) setUnit(n *graph.Node, cut []bool) bool {
	unit := 0 // of the results
	for i, v := range n.In {
		if u := b.unit[v] * perIndex(v, n); cut[i] && u > 0 {
			if unit > 0 && u != unit {
				return false
			}
			unit = u
		}
	}
	for i, v := range n.In {
		if each := perIndex(v, n); cut[i] {
			unit = max(unit, each)
			b.unit[v] = unit / each
		}
	}
	for _, v := range n.Out {
		b.unit[v] = unit
	}
	return true
}

// perIndex is the indices of dimension 0 of n's results for each of an input: more than one where samples become rows.
func perIndex(v *graph.Value, n *graph.Node) int {
	if _, merges := n.Op.(ops.Reshape); !merges || v.Meta.Shape[0] == 0 {
		return 1
	}
	return n.Out[0].Meta.Shape[0] / v.Meta.Shape[0]
}

// bySamples notes a node to cut over samples. A node that reads a result of those before as a whole cannot
// run part by part with them.
func (b *builder) bySamples(n *graph.Node) {
	if len(b.run) > 0 && b.run[0].Phase != n.Phase {
		b.flush()
	}
	cut := b.c.nodes[n.ID].samples
	for i, v := range n.In {
		if cut[i] {
			continue
		}
		if v.Node != nil && slices.Contains(b.run, v.Node) {
			b.flush()
		}
		b.whole(v, n)
	}
	b.run = append(b.run, n)
}

// flush adds the nodes that are noted, part by part.
func (b *builder) flush() {
	for p := range b.c.Count {
		for _, n := range b.run {
			b.part(n, p)
		}
	}
	b.run = b.run[:0]
}

// part adds part p of a node over samples.
func (b *builder) part(n *graph.Node, p int) {
	cut := b.c.nodes[n.ID].samples
	in := make([]*graph.Value, len(n.In))
	for i, v := range n.In {
		if in[i] = b.now(v); cut[i] {
			in[i] = b.samplesOf(v, p, n)
		}
	}
	of := &graph.Part{Of: n, Label: fmt.Sprintf("part%d", p)}
	lo, hi := b.samples(n.Out[0], p)
	m := b.node(n, ops.OfSamples(n.Op, hi-lo), in, of)
	for _, v := range n.Out {
		b.made[v] = append(b.made[v], b.give(m, v, of.Label, hi-lo, 0))
	}
}

// samples is part p of dimension 0 of a value.
func (b *builder) samples(v *graph.Value, p int) (lo, hi int) {
	unit := b.unit[v]
	lo, hi = interval(v.Meta.Shape[0]/unit, p, b.c.Count)
	return lo * unit, hi * unit
}

// interval is range i of count even ranges of n.
func interval(n, i, count int) (lo, hi int) { return n * i / count, n * (i + 1) / count }

// node adds a node in place of n.
func (b *builder) node(n *graph.Node, op graph.Op, in []*graph.Value, of *graph.Part) *graph.Node {
	m := &graph.Node{ID: b.next, Op: op, In: in, Phase: n.Phase, Layer: n.Layer, Of: b.of(n), Recomputed: n.Recomputed, Part: of}
	b.next++
	if of != nil && of.Of == n && b.stands[n] == nil {
		b.stands[n] = m
	}
	b.g.Nodes = append(b.g.Nodes, m)
	return m
}

// give gives a node an output: v, but for its size along an axis.
func (b *builder) give(m *graph.Node, v *graph.Value, label string, size, axis int) *graph.Value {
	meta := v.Meta
	meta.Shape = meta.Shape.Clone()
	meta.Shape[axis] = size
	w := &graph.Value{ID: len(b.g.Values), Name: label + "/" + v.Name, Meta: meta, Node: m, Out: len(m.Out)}
	b.g.Values, m.Out = append(b.g.Values, w), append(m.Out, w)
	return w
}

// samplesOf is part p of a value, for a reader.
func (b *builder) samplesOf(v *graph.Value, p int, reader *graph.Node) *graph.Value {
	if made := b.made[v]; made != nil {
		return made[p]
	}
	taken := b.taken[v]
	if taken == nil {
		taken = make([]*graph.Value, b.c.Count)
		b.taken[v] = taken
	}
	if taken[p] == nil {
		label := fmt.Sprintf("part%d", p)
		if lo, hi := b.samples(v, p); b.across[v] != nil && b.instead[v] == nil {
			taken[p] = b.regrouped(v, b.across[v], reader, label, 0, lo, hi)
		} else {
			taken[p] = b.slice(b.now(v), reader, label, 0, lo, hi)
		}
	}
	return taken[p]
}

// slice adds the node that copies lo to hi-1 along an axis out of v.
func (b *builder) slice(v *graph.Value, reader *graph.Node, label string, axis, lo, hi int) *graph.Value {
	op := ops.Slice{Start: make([]int, v.Meta.Shape.Rank()), Stop: slices.Clone(v.Meta.Shape)}
	op.Start[axis], op.Stop[axis] = lo, hi
	m := b.node(reader, op, []*graph.Value{v}, &graph.Part{Label: label})
	return b.give(m, v, label, hi-lo, axis)
}

// whole is a value as a whole, for a reader.
func (b *builder) whole(v *graph.Value, reader *graph.Node) *graph.Value {
	if made := b.made[v]; made != nil && b.instead[v] == nil {
		b.join(v, reader, 0, made)
	}
	if across := b.across[v]; across != nil && b.instead[v] == nil {
		b.join(v, reader, 1, across)
	}
	return b.now(v)
}

// join adds the node that joins v from its parts along an axis.
func (b *builder) join(v *graph.Value, reader *graph.Node, axis int, from []*graph.Value) {
	b.replace(v, b.node(reader, ops.Concat{Axis: axis}, from, nil))
}

// byChannels adds a node in parts over its channels, and what joins them.
func (b *builder) byChannels(n *graph.Node, ways []ops.Channels, cut ranges) {
	in := slices.Clone(n.In)
	for i, v := range n.In {
		if !slices.ContainsFunc(ways, func(by ops.Channels) bool { return by.In[i] >= 0 }) {
			in[i] = b.whole(v, n)
		}
	}
	by, made := ways[0], make([][]*graph.Value, len(n.Out))
	count := cut.parts(by.Of(n), b.c.Count)
	for i := range count {
		label := b.rangeIn(in, n, by, cut, i, count)
		lo, hi := interval(by.Of(n), i, count)
		if len(ways) > 1 {
			made[0] = append(made[0], b.tiles(n, in, ways[1], label, hi-lo))
			continue
		}
		m := b.node(n, ops.OfChannels(n.Op, hi-lo), slices.Clone(in), &graph.Part{Of: n, Label: label})
		for k, axis := range by.Out {
			made[k] = append(made[k], b.give(m, n.Out[k], label, hi-lo, axis))
		}
	}
	for k, v := range n.Out {
		if keeps(by, k) {
			b.across[v] = made[k]
		} else {
			b.join(v, n, by.Out[k], made[k])
		}
	}
}

// tiles adds so many rows of a matrix, in parts over its columns, and what joins these.
func (b *builder) tiles(n *graph.Node, in []*graph.Value, by ops.Channels, label string, rows int) *graph.Value {
	count := columns.parts(by.Of(n), b.c.Count)
	var parts []*graph.Value
	for i := range count {
		of := &graph.Part{Of: n, Label: label + b.rangeIn(in, n, by, columns, i, count)}
		lo, hi := interval(by.Of(n), i, count)
		part := b.give(b.node(n, n.Op, slices.Clone(in), of), n.Out[0], of.Label, hi-lo, 1)
		part.Meta.Shape[0] = rows
		parts = append(parts, part)
	}
	return b.give(b.node(n, ops.Concat{Axis: 1}, parts, &graph.Part{Label: label}), n.Out[0], label, rows, 0)
}

// rangeIn sets the inputs of n that have channels to range i of them, and names it.
func (b *builder) rangeIn(in []*graph.Value, n *graph.Node, by ops.Channels, cut ranges, i, count int) (label string) {
	label = fmt.Sprint(cut.label, i)
	for k, axis := range by.In {
		if axis >= 0 {
			in[k] = b.channelsOf(n.In[k], axis, label, i, count, n)
		}
	}
	return label
}

// channelsOf is range i of the channels of a value along an axis, of all samples.
func (b *builder) channelsOf(v *graph.Value, axis int, label string, i, count int, reader *graph.Node) *graph.Value {
	at := along{v, axis, label}
	if w := b.ranges[at]; w != nil {
		return w
	}
	if axis == 0 || axis > 1 && b.across[v] != nil {
		b.whole(v, reader) // its parts are along that axis, or along none that is known
	}
	lo, hi := interval(v.Meta.Shape[axis], i, count)
	var w *graph.Value
	switch made, across := b.made[v], b.across[v]; {
	case b.instead[v] != nil || made == nil && across == nil:
		w = b.slice(b.now(v), reader, label, axis, lo, hi)
	case made != nil:
		w = b.regrouped(v, made, reader, label, axis, lo, hi)
	default:
		w = b.within(v, across, reader, label, lo, hi)
	}
	b.ranges[at] = w
	return w
}

// regrouped adds the nodes that take indices lo to hi-1 of an axis of v out of its parts along the other one of the first two.
func (b *builder) regrouped(v *graph.Value, parts []*graph.Value, reader *graph.Node, label string, axis, lo, hi int) *graph.Value {
	var from []*graph.Value
	for _, part := range parts {
		from = append(from, b.slice(part, reader, label, axis, lo, hi))
	}
	along := 0
	if axis == 0 {
		along = 1
	}
	return b.give(b.node(reader, ops.Concat{Axis: along}, from, &graph.Part{Label: label}), v, label, hi-lo, axis)
}

// within adds the nodes that take channels lo to hi-1 of v out of its parts over channels.
func (b *builder) within(v *graph.Value, parts []*graph.Value, reader *graph.Node, label string, lo, hi int) *graph.Value {
	var from []*graph.Value
	for i, part := range parts {
		begin, end := interval(v.Meta.Shape[1], i, len(parts))
		switch first, last := max(lo, begin), min(hi, end); {
		case first >= last:
		case last-first == end-begin:
			from = append(from, part)
		default:
			from = append(from, b.slice(part, reader, label, 1, first-begin, last-begin))
		}
	}
	if len(from) == 1 {
		return from[0]
	}
	return b.give(b.node(reader, ops.Concat{Axis: 1}, from, &graph.Part{Label: label}), v, label, hi-lo, 1)
}
