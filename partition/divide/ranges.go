package divide

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Ranges says which updates are cut into ranges. The zero value cuts none.
type Ranges struct {
	Elems int   // of the smallest range: a multiple of ops.SumElems
	above int64 // bytes: an update that leases no more stays whole
}

// On reports whether any update may be cut.
func (r Ranges) On() bool { return r.Elems > 0 }

// mostRanges is the most ranges of an update. More hardly lower the floor, and each
// is a launch.
const mostRanges = 64

// size is the elements of each range of a tensor.
func (r Ranges) size(of *graph.Value) int {
	whole := r.Elems * mostRanges
	return r.Elems * max(1, (of.Meta.Elems()+whole-1)/whole)
}

// RangesFor are the ways to cut updates for devices whose least limit is that many
// bytes, coarse to fine. Small ranges lower the floor; large ones are fewer launches.
func RangesFor(limit int64) []Ranges {
	fine := Ranges{ops.SumElems, limit / 16}
	coarse := Ranges{int(limit/256) / ops.SumElems * ops.SumElems, fine.above} // a 64th of the memory, at 4 bytes each
	if coarse.Elems <= fine.Elems {
		return []Ranges{fine}
	}
	return []Ranges{coarse, fine}
}

// Divided is what the pass makes of a graph: one with updates in ranges.
type Divided struct {
	Graph   *graph.Graph
	from    []int       // per new node, from the first ID on that was free: the ID of the node that it is a range of
	replica []int       // per new node: the replica that runs it, or nowhere
	sums    map[int]int // by Value.ID: the replica that reads a range of a sum
	parts   map[int]int // by Value.ID: of the sum of a part, the sum that it is a part of
}

// ranger cuts the updates of a graph into ranges. A node of the update becomes one
// node per range. The optimizer's state becomes a variable per range, since nothing
// else uses it. Where one replica makes the update, the nodes change the weight in
// place, one after the other, and the weight stays whole: products read it so. Its gradient
// does too, unless it is computed in parts, whose sums over microbatches are then apart as well. A call of [Updates] or [ShardsOf] owns it; the graph that it makes is a new one.
type ranger struct {
	idx     *nodes.Index
	r       Ranges
	sh      Shards
	g       *graph.Graph
	cut     *Divided
	parts   map[*graph.Value][]*graph.Value // ranges of each variable that is cut
	last    map[*graph.Value]*graph.Value   // of each value that is not made any more: the one that has its contents
	instead map[*graph.Value]*graph.Value   // of each value that another node makes now: that one's
	ranges  map[*graph.Value][]shardRange   // of each gradient that replicas sum in ranges
	rangeAt map[valueRange]*graph.Value     // those ranges, and the parts of gradients as vectors
	joined  map[*graph.Value]inParts        // each gradient that nothing joins any more, and what is summed to one
}

func newRanger(idx *nodes.Index, r Ranges, sh Shards) *ranger {
	c := &ranger{
		idx: idx, r: r, sh: sh, g: new(graph.Graph), parts: map[*graph.Value][]*graph.Value{},
		last: map[*graph.Value]*graph.Value{}, instead: map[*graph.Value]*graph.Value{},
		ranges: map[*graph.Value][]shardRange{}, rangeAt: map[valueRange]*graph.Value{},
		joined: map[*graph.Value]inParts{},
	}
	*c.g = *idx.Graph
	c.g.Nodes, c.g.Vars, c.g.Assigns = nil, nil, nil
	c.g.Values = slices.Clone(idx.Graph.Values)
	c.cut = &Divided{Graph: c.g, sums: map[int]int{}, parts: map[int]int{}}
	return c
}

// Updates is the graph with updates in ranges; nil if no update is cut.
func Updates(idx *nodes.Index, r Ranges, sh Shards) *Divided {
	if !r.On() && !sh.On() {
		return nil
	}
	c := newRanger(idx, r, sh)
	c.divide()
	c.takeParts()
	c.accumulate()
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		c.add(n)
	}
	for _, v := range idx.Graph.Vars {
		if parts := c.parts[v]; parts != nil {
			c.g.Vars = append(c.g.Vars, parts...)
		} else {
			c.g.Vars = append(c.g.Vars, v)
		}
	}
	c.g.Outputs = c.substituted(c.g.Outputs)
	c.assign()
	if len(c.cut.from) == 0 {
		return nil
	}
	return c.cut
}

// add appends a node, or the nodes that it is cut into.
func (c *ranger) add(n *graph.Node) {
	switch {
	case n.Phase != graph.Update:
		if len(n.Out) == 0 || c.joined[n.Out[0]].parts == nil {
			c.g.Nodes = append(c.g.Nodes, n)
		}
	case c.sh.has(n) && c.ranges[c.gradientOf(n)] != nil:
		c.shard(n)
	case n.Op.Kind() == (ops.SumSquares{}).Kind() && c.ranges[n.In[0]] != nil:
		c.squares(n)
	case n.Op.Kind() == (ops.SumSquares{}).Kind() && c.joined[n.In[0]].parts != nil:
		c.squaresOfParts(n)
	case c.ranges[n.Out[0]] != nil: // its ranges are added up
	case c.isInPlace(n):
		c.inPlace(n)
	default:
		c.rewire(n)
	}
}

// isInPlace reports whether one replica makes the update n in ranges.
func (c *ranger) isInPlace(n *graph.Node) bool {
	return c.r.On() && c.cuttable(n) && n.In[0].Meta.Elems() > c.r.Elems && c.lease(n) > c.r.above
}

// cuttable reports whether n updates a variable with state of its own. Without state,
// nothing is gained.
func (c *ranger) cuttable(n *graph.Node) bool {
	if n.Phase != graph.Update || len(n.In) == 0 {
		return false
	}
	w, places := n.In[0], ops.Ranged{Op: n.Op}.Places()
	if len(places) < 2 || nodes.Scalar(w) {
		return false
	}
	for i, v := range n.In {
		if !nodes.Scalar(v) && (!v.Meta.Equal(w.Meta) || slices.Contains(n.In[:i], v)) {
			return false
		}
	}
	for k, out := range n.Out {
		v := n.In[places[k]]
		if c.idx.Variable[out.ID] != v || len(c.idx.Readers[out.ID]) > 0 || c.idx.Output[out.ID] || c.idx.Output[v.ID] {
			return false
		}
		if k > 0 && (len(c.idx.Readers[v.ID]) > 1 || v.Init.Kind != graph.Zeros && v.Role != graph.Average) {
			return false
		}
	}
	return true
}

// lease is the bytes of the tensors that an update reads.
func (c *ranger) lease(n *graph.Node) (bytes int64) {
	for _, v := range n.In {
		if !nodes.Scalar(v) {
			bytes += v.Meta.Bytes()
		}
	}
	return bytes
}

// inPlace appends the nodes that are n's ranges, on one replica. Each reads the whole gradient, or its range of
// a part of it.
func (c *ranger) inPlace(n *graph.Node) {
	in, w, gradient := c.substituted(n.In), n.In[0], c.gradientOf(n)
	size := c.r.size(w)
	piece := func(from, count int) {
		x := c.piece(n, ops.Ranged{Op: n.Op, From: from, Count: count}, in, place.Nowhere)
		in[0] = x.Out[0]
		c.last[n.Out[0]] = x.Out[0]
	}
	parts := c.joined[gradient].parts
	if parts == nil {
		all := w.Meta.Elems()
		for from := 0; from < all; from += size {
			piece(from, min(size, all-from))
		}
		return
	}
	at, begin := slices.Index(n.In, gradient), 0
	for _, part := range parts {
		elems := part.Meta.Elems()
		flat := c.flat(gradient, part, begin)
		for from := 0; from < elems; from += size {
			count := min(size, elems-from)
			if in[at] = flat; count < elems {
				in[at] = c.slice(n, flat, nodes.RangeName(gradient.Name, begin+from, count), from, count)
			}
			piece(begin+from, count)
		}
		begin += elems
	}
}

// piece appends the node that is a range of n, with ranges of its state.
func (c *ranger) piece(n *graph.Node, op ops.Ranged, in []*graph.Value, replica int) *graph.Node {
	in = slices.Clone(in)
	places := op.Places()
	for _, i := range places[1:] {
		in[i] = c.part(n.In[i], op)
	}
	x := c.append(n, op, in, replica)
	for k, out := range n.Out {
		v := c.value(out, op.From, op.Count)
		v.Meta = in[places[k]].Meta
		if k == 0 && op.Apart {
			v.Meta.Shape = shape.Of(op.Count)
		}
		x.give(v)
		if k > 0 {
			c.g.Assigns = append(c.g.Assigns, graph.Assign{Var: in[places[k]], New: v})
		}
	}
	return x.Node
}

// newNode is a node that the whole graph does not have.
type newNode struct{ *graph.Node }

// give appends an output.
func (n newNode) give(v *graph.Value) {
	v.Kind, v.Node, v.Out = graph.Computed, n.Node, len(n.Out)
	n.Out = append(n.Out, v)
}

// append appends a node that is a range of another one, for a replica or nowhere in
// particular. Its outputs are to be given.
func (c *ranger) append(of *graph.Node, op graph.Op, in []*graph.Value, replica int) newNode {
	x := &graph.Node{ID: c.idx.IDs + len(c.cut.from), Op: op, In: in, Phase: of.Phase, Layer: of.Layer, Of: of.Of}
	c.cut.from, c.cut.replica = append(c.cut.from, of.ID), append(c.cut.replica, replica)
	c.g.Nodes = append(c.g.Nodes, x)
	return newNode{x}
}

// part is the variable that is a range of v.
func (c *ranger) part(v *graph.Value, op ops.Ranged) *graph.Value {
	p := c.value(v, op.From, op.Count)
	p.Meta.Shape = shape.Of(op.Count)
	p.Range = &graph.Range{Of: v, From: op.From}
	c.parts[v] = append(c.parts[v], p)
	return p
}

// value adds a copy of v, named by a range.
func (c *ranger) value(v *graph.Value, from, count int) *graph.Value {
	x := new(graph.Value)
	*x = *v
	x.ID, x.Name = len(c.g.Values), nodes.RangeName(v.Name, from, count)
	c.g.Values = append(c.g.Values, x)
	return x
}

// assign keeps the assignments of whole variables.
func (c *ranger) assign() {
	for _, a := range c.idx.Graph.Assigns {
		if c.parts[a.Var] != nil {
			continue
		}
		if last := c.last[a.New]; last != nil {
			a.New = last
		}
		if now := c.instead[a.New]; now != nil {
			a.New = now
		}
		c.g.Assigns = append(c.g.Assigns, a)
	}
}

// Place is the placement of a graph that cutUpdates made: ranges are where the
// whole was, and on the replicas that the cut says.
func Place(p *place.Placement, cut *Divided) *place.Placement {
	q := &place.Placement{Groups: p.Groups, Node: slices.Clone(p.Node), Owner: map[string]int{}}
	for _, id := range cut.from {
		q.Node = append(q.Node, p.Node[id])
	}
	for _, v := range cut.Graph.Vars {
		q.Owner[v.Name] = p.Owner[v.Whole().Name]
	}
	if s := p.Shared; s != nil {
		q.Shared = &place.Shares{Node: slices.Clone(s.Node), Sum: append(slices.Clone(s.Sum), make([]int, len(cut.Graph.Values)-len(s.Sum))...)}
		for i, id := range cut.from {
			at := cut.replica[i]
			if at == place.Nowhere {
				at = s.Node[id]
			}
			q.Shared.Node = append(q.Shared.Node, at)
		}
		for sum, at := range cut.sums {
			q.Shared.Sum[sum] = at
		}
		for part, sum := range cut.parts {
			q.Shared.Sum[part] = s.Sum[sum]
		}
	}
	return q
}
