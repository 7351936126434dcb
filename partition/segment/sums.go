package segment

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

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
