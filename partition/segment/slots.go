package segment

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// binder finds the tensors of segments, one segment at a time: its tables are cleared for the
// next one. A call of [Make] owns it.
type binder struct {
	idx      *nodes.Index
	pl       *place.Placement
	replicas int               // that share the update; 0 if they do not
	inside   nodes.Marks       // nodes of the segment
	seen     nodes.Marks       // values
	input    *nodes.Table[int] // value → its index among the inputs of the variant
}

func newBinder(idx *nodes.Index, pl *place.Placement, replicas int) *binder {
	values := len(idx.Graph.Values)
	b := &binder{idx: idx, pl: pl, inside: nodes.NewMarks(idx.IDs), seen: nodes.NewMarks(values), input: nodes.NewTable[int](values)}
	if pl.Shared != nil {
		b.replicas = replicas
	}
	return b
}

// bind finds the tensors that a segment reads and writes.
func (b *binder) bind(l *nodeList) Segment {
	s := Segment{ID: l.id, Name: l.name(), Piece: l.piece, Stage: l.stage, Replica: l.replica, Pass: l.pass, Passes: l.passes, Level: l.level}
	outs := b.findOuts(l)
	s.First = b.variant(l, outs, false)
	s.Later = s.First
	if slices.ContainsFunc(outs, func(o out) bool { return o.accum >= 0 }) {
		s.Later = b.variant(l, outs, true)
		if b.idx.Tree {
			sums := b.sumsOf(outs)
			s.Reduce = b.reduction(l, sums)
			if b.replicas > 0 {
				s.Split = b.split(l, sums)
			}
			for r := range b.replicas {
				s.ReduceOn = append(s.ReduceOn, b.reduction(l, b.endingOn(r, sums)))
			}
		}
	}
	return s
}

// out is one tensor that a segment writes. A value that is read and summed is two of them.
type out struct {
	value  *graph.Value // of the whole graph
	accum  int          // the accum whose sum it adds to, or -1
	copied bool         // the same value is an earlier out too, so this is a copy
}

// findOuts lists the values of a segment that others read, in the order in which
// they are made. A value that is both read and summed, or summed twice, is
// written twice.
func (b *binder) findOuts(l *nodeList) []out {
	b.inside.Clear()
	for _, n := range l.Nodes {
		b.inside.Add(n.ID)
	}
	var outs []out
	for _, n := range stop.Each(b.idx.Stop, l.Nodes) {
		for _, v := range n.Out {
			visible := b.idx.Output[v.ID] || b.idx.Variable[v.ID] != nil ||
				slices.ContainsFunc(b.idx.Readers[v.ID], func(r *graph.Node) bool { return !b.inside.Has(r.ID) })
			if visible {
				outs = append(outs, out{value: v, accum: -1})
			}
			for i, a := range b.idx.Accums[v.ID] {
				outs = append(outs, out{value: v, accum: a, copied: visible || i > 0})
			}
		}
	}
	return outs
}

// variant builds the graph that a device compiles: a segment's nodes, and for
// each summed part a node behind the one that makes it. In later microbatches
// that node adds the part to its sum. In the first one, it copies the part where
// others read it too; else the part itself is written as the sum.
func (b *binder) variant(l *nodeList, outs []out, later bool) Variant {
	idx, g := b.idx, &graph.Graph{Name: l.name()}
	v := Variant{Graph: g}
	extra := map[*graph.Node][]*graph.Node{}
	var sums []*graph.Value
	for _, o := range stop.Each(idx.Stop, outs) {
		result, slot := o.value, Slot{idx.Identity(o.value), Write}
		if o.accum >= 0 {
			a := idx.Graph.Accums[o.accum]
			slot.Value = a.Sum
			var n *graph.Node
			switch {
			case later:
				n = extraNode(idx, nextSum, o.accum, a.Add, a.Sum, a.Part)
				sums = append(sums, a.Sum)
			case o.copied:
				n = extraNode(idx, copiedPart, o.accum, ops.BroadcastTo{Shape: a.Part.Meta.Shape}, a.Part)
			}
			if n != nil {
				extra[o.value.Node] = append(extra[o.value.Node], n)
				result = n.Out[0]
			}
		}
		g.Outputs, v.Out = append(g.Outputs, result), append(v.Out, slot)
	}
	for _, n := range stop.Each(idx.Stop, l.Nodes) {
		g.Nodes = append(append(g.Nodes, n), extra[n]...)
	}
	g.Inputs = append(nodes.Inputs(l.Nodes, b.seen), sums...)
	for _, in := range g.Inputs {
		v.In = append(v.In, Slot{idx.Identity(in), Read})
	}
	b.alias(&v)
	return v
}

// extra is a node or value that the whole graph does not have.
type extra int

// The extras of an accum.
const (
	copiedPart extra = iota // its part, to be the sum
	nextSum                 // its sum with a part added
)

// prefixes begin the names of extra nodes' values.
var prefixes = [...]string{copiedPart: "copy(", nextSum: "next("}

// offset is how far its ID lies beyond those of the graph. It depends only on the
// accum.
func (x extra) offset(accum int) int { return 2*accum + int(x) }

// extraNode makes a node that the whole graph does not have.
func extraNode(idx *nodes.Index, x extra, accum int, op graph.Op, in ...*graph.Value) *graph.Node {
	a, offset := idx.Graph.Accums[accum], x.offset(accum)
	from := a.Part.Node
	n := &graph.Node{ID: idx.IDs + offset, Op: op, In: in, Phase: from.Phase, Layer: from.Layer, Of: from.Of}
	n.Out = []*graph.Value{{ID: len(idx.Graph.Values) + offset, Name: prefixes[x] + a.Sum.Name + ")", Meta: a.Part.Meta, Node: n}}
	return n
}

// alias pairs each output with the input that has its old contents.
func (b *binder) alias(v *Variant) {
	v.Alias = make([]int, len(v.Out))
	b.input.Clear()
	for j, s := range v.In {
		b.input.Set(s.Value.ID, j)
	}
	for i, o := range v.Out {
		v.Alias[i] = -1
		if j, ok := b.input.Get(o.Value.ID); ok {
			v.Alias[i] = j
			v.Out[i].Mode, v.In[j].Mode = ReadWrite, ReadWrite
		}
	}
}

// summed is a sum over microbatches, or a range of one.
type summed struct {
	*graph.Value
	add  graph.Op
	from *graph.Node // makes its parts
}

// sumsOf lists the sums that a segment writes.
func (b *binder) sumsOf(outs []out) (list []summed) {
	for _, o := range outs {
		if o.accum >= 0 {
			a := b.idx.Graph.Accums[o.accum]
			list = append(list, summed{a.Sum, a.Add, a.Part.Node})
		}
	}
	return list
}

// endingOn lists the sums and ranges of sums that a replica's update reads.
func (b *binder) endingOn(replica int, sums []summed) (list []summed) {
	for _, s := range sums {
		ends := b.idx.Ranges[s.ID]
		if ends == nil {
			ends = []*graph.Value{s.Value}
		}
		for _, v := range ends {
			if b.pl.Shared.Sum[v.ID] == replica {
				list = append(list, summed{v, s.add, s.from})
			}
		}
	}
	return list
}

// reduction builds the variant that adds the right of two partial sums to the left,
// for each of these sums. Inputs 2i and 2i+1 are the left and the right one of output
// i.
func (b *binder) reduction(l *nodeList, sums []summed) (v Variant) {
	if len(sums) == 0 {
		return v
	}
	v.Graph = &graph.Graph{Name: l.name() + "R"}
	for _, s := range sums {
		right := &graph.Value{ID: b.newValue(&v), Name: "right(" + s.Name + ")", Kind: graph.Summed, Meta: s.Meta}
		v.Graph.Inputs = append(v.Graph.Inputs, s.Value, right)
		v.Alias = append(v.Alias, len(v.In))
		v.In = append(v.In, Slot{s.Value, ReadWrite}, Slot{s.Value, Read})
		v.Out = append(v.Out, Slot{s.Value, ReadWrite})
		v.Graph.Outputs = append(v.Graph.Outputs, b.sumNode(&v, s.from, "both("+s.Name+")", s.Meta, s.add, s.Value, right))
	}
	return v
}

// split builds the variant that copies ranges out of these sums.
func (b *binder) split(l *nodeList, sums []summed) (v Variant) {
	g := &graph.Graph{Name: l.name() + "S"}
	v.Graph = g
	for _, s := range sums {
		ranges, flat := b.idx.Ranges[s.ID], s.Value
		if ranges == nil {
			continue
		}
		g.Inputs, v.In = append(g.Inputs, s.Value), append(v.In, Slot{s.Value, Read})
		if all := shape.Of(s.Meta.Elems()); s.Meta.Shape.Rank() != 1 {
			flat = b.sumNode(&v, s.from, "flat("+s.Name+")", shape.Meta{DType: s.Meta.DType, Shape: all}, ops.Reshape{Shape: all}, s.Value)
		}
		for _, r := range ranges {
			op := ops.Slice{Start: []int{r.Range.From}, Stop: []int{r.Range.From + r.Meta.Elems()}}
			g.Outputs = append(g.Outputs, b.sumNode(&v, s.from, "cut("+r.Name+")", r.Meta, op, flat))
			v.Out, v.Alias = append(v.Out, Slot{r, Write}), append(v.Alias, -1)
		}
	}
	if len(v.In) == 0 {
		return Variant{}
	}
	return v
}

// newValue is the ID of the next value that the whole graph does not have, in a
// variant that adds or cuts sums.
func (b *binder) newValue(v *Variant) int {
	return len(b.idx.Graph.Values) + len(v.In) + len(v.Graph.Nodes)
}

// sumNode appends such a node to a variant, and returns its output.
func (b *binder) sumNode(v *Variant, from *graph.Node, name string, m shape.Meta, op graph.Op, in ...*graph.Value) *graph.Value {
	n := &graph.Node{ID: b.idx.IDs + len(v.Graph.Nodes), Op: op, In: in, Phase: from.Phase, Layer: from.Layer, Of: from.Of}
	n.Out = []*graph.Value{{ID: b.newValue(v), Name: name, Meta: m, Kind: graph.Computed, Node: n}}
	v.Graph.Nodes = append(v.Graph.Nodes, n)
	return n.Out[0]
}
