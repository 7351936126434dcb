package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
)

// binder finds the tensors of segments: pass 6.
type binder struct {
	idx      *index
	pl       *placement
	replicas int         // that share the update; 0 if they do not
	inside   marks       // nodes of the segment
	seen     marks       // values
	input    *table[int] // value → its index among the inputs of the variant
}

func newBinder(idx *index, pl *placement, replicas int) *binder {
	values := len(idx.g.Values)
	b := &binder{idx: idx, pl: pl, inside: newMarks(idx.ids), seen: newMarks(values), input: newTable[int](values)}
	if pl.shared != nil {
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
		if b.idx.tree {
			s.Reduce = b.reduction(l, outs, func(*graph.Value) bool { return true })
			for r := range b.replicas {
				s.ReduceOn = append(s.ReduceOn, b.reduction(l, outs, func(sum *graph.Value) bool { return b.pl.shared.sum[sum.ID] == r }))
			}
		}
	}
	return s
}

// out is one tensor that a segment writes.
type out struct {
	value  *graph.Value // of the whole graph
	accum  int          // the accum whose sum it adds to, or -1
	copied bool         // the same value is an earlier out too, so this is a copy
}

// findOuts lists the values of a segment that others read, in the order in which
// they are made. A value that is both read and summed, or summed twice, is
// written twice.
func (b *binder) findOuts(l *nodeList) []out {
	b.inside.clear()
	for _, n := range l.nodes {
		b.inside.add(n.ID)
	}
	var outs []out
	for _, n := range stop.Each(b.idx.stop, l.nodes) {
		for _, v := range n.Out {
			visible := b.idx.output[v.ID] || b.idx.variable[v.ID] != nil ||
				slices.ContainsFunc(b.idx.readers[v.ID], func(r *graph.Node) bool { return !b.inside.has(r.ID) })
			if visible {
				outs = append(outs, out{value: v, accum: -1})
			}
			for i, a := range b.idx.accums[v.ID] {
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
	for _, o := range stop.Each(idx.stop, outs) {
		result, slot := o.value, Slot{idx.identity(o.value), Write}
		if o.accum >= 0 {
			a := idx.g.Accums[o.accum]
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
	for _, n := range stop.Each(idx.stop, l.nodes) {
		g.Nodes = append(append(g.Nodes, n), extra[n]...)
	}
	g.Inputs = append(read(l.nodes, b.seen), sums...)
	for _, in := range g.Inputs {
		v.In = append(v.In, Slot{idx.identity(in), Read})
	}
	b.alias(&v)
	return v
}

// reduction builds the variant that adds the right of two partial sums to the left,
// for each sum that a segment writes and that is among those asked for. Inputs 2i and
// 2i+1 are the left and the right one of output i.
func (b *binder) reduction(l *nodeList, outs []out, among func(sum *graph.Value) bool) (v Variant) {
	for _, o := range outs {
		if o.accum < 0 || !among(b.idx.g.Accums[o.accum].Sum) {
			continue
		}
		sum, right := b.idx.g.Accums[o.accum].Sum, rightOf(b.idx, o.accum)
		n := extraNode(b.idx, bothSums, o.accum, b.idx.g.Accums[o.accum].Add, sum, right)
		if v.Graph == nil {
			v.Graph = &graph.Graph{Name: l.name() + "R"}
		}
		v.Graph.Nodes = append(v.Graph.Nodes, n)
		v.Graph.Inputs = append(v.Graph.Inputs, sum, right)
		v.Graph.Outputs = append(v.Graph.Outputs, n.Out[0])
		v.Alias = append(v.Alias, len(v.In))
		v.In = append(v.In, Slot{sum, ReadWrite}, Slot{sum, Read})
		v.Out = append(v.Out, Slot{sum, ReadWrite})
	}
	return v
}

// rightOf is the value that stands for the right of two partial sums.
func rightOf(idx *index, accum int) *graph.Value {
	sum := idx.g.Accums[accum].Sum
	return &graph.Value{ID: len(idx.g.Values) + rightSum.offset(idx, accum), Name: "right(" + sum.Name + ")", Kind: graph.Summed, Meta: sum.Meta}
}

// extra is a node or value that the whole graph does not have.
type extra int

// The extras of an accum.
const (
	copiedPart extra = iota // its part, to be the sum
	nextSum                 // its sum with a part added
	bothSums                // two partial sums added
	rightSum                // the right of two partial sums
)

// prefixes begin the names of extra nodes' values.
var prefixes = [...]string{copiedPart: "copy(", nextSum: "next(", bothSums: "both("}

// offset is how far its ID lies beyond those of the graph. It depends only on the
// accum.
func (x extra) offset(idx *index, accum int) int {
	if x >= bothSums {
		accum, x = accum+len(idx.g.Accums), x-bothSums
	}
	return 2*accum + int(x)
}

// extraNode makes a node that the whole graph does not have.
func extraNode(idx *index, x extra, accum int, op graph.Op, in ...*graph.Value) *graph.Node {
	a, offset := idx.g.Accums[accum], x.offset(idx, accum)
	from := a.Part.Node
	n := &graph.Node{ID: idx.ids + offset, Op: op, In: in, Phase: from.Phase, Layer: from.Layer, Of: from.Of}
	n.Out = []*graph.Value{{ID: len(idx.g.Values) + offset, Name: prefixes[x] + a.Sum.Name + ")", Meta: a.Part.Meta, Node: n}}
	return n
}

// alias pairs each output with the input that has its old contents.
func (b *binder) alias(v *Variant) {
	v.Alias = make([]int, len(v.Out))
	b.input.clear()
	for j, s := range v.In {
		b.input.set(s.Value.ID, j)
	}
	for i, o := range v.Out {
		v.Alias[i] = -1
		if j, ok := b.input.get(o.Value.ID); ok {
			v.Alias[i] = j
			v.Out[i].Mode, v.In[j].Mode = ReadWrite, ReadWrite
		}
	}
}
