package divide

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// The methods of ranger in this file keep the parts of a gradient apart up to its update: their sums over
// microbatches, and the squares for a norm.

// inParts is a gradient of a microbatch or of the step, in parts along dimension 0.
type inParts struct {
	parts  []*graph.Value
	update *graph.Node // reads them
}

// takeParts notes the parts of the gradients that updates in ranges read, and besides them only norms do: nothing joins
// them then.
func (c *ranger) takeParts() {
	for _, n := range c.idx.Updates {
		if !c.isInPlace(n) || c.sh.has(n) {
			continue
		}
		v := c.gradientOf(n)
		if v == nil || !c.onlyUpdates(v, n) {
			continue
		}
		if v.Kind != graph.Summed {
			if parts := partsOf(v); parts != nil && len(c.idx.Accums[v.ID]) == 0 {
				c.joined[v] = inParts{parts, n}
			}
			continue
		}
		each := c.idx.Part[v.ID] // of each microbatch
		parts := partsOf(each)
		if parts == nil || len(c.idx.Readers[each.ID]) > 0 || c.idx.Output[each.ID] || len(c.idx.Accums[each.ID]) > 1 {
			continue
		}
		var sums []*graph.Value
		for _, part := range parts {
			sums = append(sums, c.sumOf(v, part))
		}
		c.joined[each], c.joined[v] = inParts{parts, n}, inParts{sums, n}
	}
}

// onlyUpdates reports whether nothing reads a gradient but an update and norms.
func (c *ranger) onlyUpdates(v *graph.Value, update *graph.Node) bool {
	return !c.idx.Output[v.ID] && !slices.ContainsFunc(c.idx.Readers[v.ID], func(r *graph.Node) bool {
		_, norm := r.Op.(ops.SumSquares)
		return r != update && !norm
	})
}

// partsOf are the parts that a node of the backward pass joins to v; nil if none does.
func partsOf(v *graph.Value) []*graph.Value {
	if v.Node == nil || v.Node.Phase == graph.Update {
		return nil
	}
	if op, ok := v.Node.Op.(ops.Concat); !ok || op.Axis != 0 {
		return nil
	}
	return v.Node.In
}

// sumOf adds the value that is the sum of a part over microbatches, in place of a part of sum.
func (c *ranger) sumOf(sum, part *graph.Value) *graph.Value {
	x := new(graph.Value)
	*x = *sum
	x.ID, x.Name, x.Meta = len(c.g.Values), "sum("+part.Name+")", part.Meta
	c.g.Values = append(c.g.Values, x)
	c.cut.parts[x.ID] = sum.ID
	return x
}

// accumulate sums over microbatches what is in parts part by part.
func (c *ranger) accumulate() {
	c.g.Accums = nil
	for _, a := range c.idx.Graph.Accums {
		sums, parts := c.joined[a.Sum].parts, c.joined[a.Part].parts
		if sums == nil {
			c.g.Accums = append(c.g.Accums, a)
			continue
		}
		for i, part := range parts {
			c.g.Accums = append(c.g.Accums, graph.Accum{Part: part, Sum: sums[i], Add: a.Add})
		}
	}
}

// flat is a part of a gradient as a vector. What the update and a norm both read is made once.
func (c *ranger) flat(gradient, part *graph.Value, from int) *graph.Value {
	if part.Meta.Shape.Rank() == 1 {
		return part
	}
	key := valueRange{gradient, from}
	if c.rangeAt[key] == nil {
		elems := part.Meta.Elems()
		name := nodes.RangeName(gradient.Name, from, elems)
		c.rangeAt[key] = c.vector(c.joined[gradient].update, ops.Reshape{Shape: shape.Of(elems)}, name, elems, part)
	}
	return c.rangeAt[key]
}

// slice appends the node that copies a range out of a vector, for n.
func (c *ranger) slice(n *graph.Node, of *graph.Value, name string, from, count int) *graph.Value {
	return c.vector(n, ops.Slice{Start: []int{from}, Stop: []int{from + count}}, name, count, of)
}

// vector appends a node for n whose result is a vector of so many elements.
func (c *ranger) vector(n *graph.Node, op graph.Op, name string, elems int, in ...*graph.Value) *graph.Value {
	v := &graph.Value{ID: len(c.g.Values), Name: name, Meta: shape.Meta{DType: in[0].Meta.DType, Shape: shape.Of(elems)}}
	c.g.Values = append(c.g.Values, v)
	c.append(n, op, in, place.Nowhere).give(v)
	return v
}

// squaresOfParts appends the nodes that add up the squares of a gradient in parts. The ranges begin where those of the
// whole sum do, and so may have elements of several parts.
func (c *ranger) squaresOfParts(n *graph.Node) {
	gradient := n.In[0]
	all, size := gradient.Meta.Elems(), ops.SumElems*max(1, c.r.size(gradient)/ops.SumElems)
	var parts []*graph.Value
	for from := 0; from < all; from += size {
		count := min(size, all-from)
		v := c.value(n.Out[0], from, count)
		v.Meta = shape.I32((count+ops.SumElems-1)/ops.SumElems, 2)
		c.append(n, ops.SquareParts{}, []*graph.Value{c.across(n, gradient, from, count)}, place.Nowhere).give(v)
		parts = append(parts, v)
	}
	c.replace(n, ops.SquareTotal{}, parts...)
}

// across is a range of a gradient in parts, for n, which squares it.
func (c *ranger) across(n *graph.Node, gradient *graph.Value, from, count int) *graph.Value {
	var list []*graph.Value
	begin := 0
	name := func(from, count int) string { return nodes.RangeName("squared "+gradient.Name, from, count) }
	for _, part := range c.joined[gradient].parts {
		end := begin + part.Meta.Elems()
		lo, hi := max(from, begin), min(from+count, end)
		if lo < hi {
			x := c.flat(gradient, part, begin)
			if hi-lo < end-begin {
				x = c.slice(n, x, name(lo, hi-lo), lo-begin, hi-lo)
			}
			list = append(list, x)
		}
		begin = end
	}
	if len(list) == 1 {
		return list[0]
	}
	return c.vector(n, ops.Concat{}, name(from, count), count, list...)
}
