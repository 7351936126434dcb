package divide

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Shards says how replicas divide the update: which parameters they update in ranges, and which replica has
// each range and each of the other parameters. The zero value says that there is one replica.
type Shards struct {
	replicas int
	unit     int              // ranges begin at multiples of so many elements: a multiple of ops.SumElems
	home     map[string]int   // by the parameter's name: the replica that joins its ranges
	owners   map[string][]int // by the parameter's name: the replica of each of its ranges, in their order
	whole    map[int]int      // by Node.ID of an update that is not cut: its replica
}

// On reports whether any parameter is updated in ranges.
func (s Shards) On() bool { return len(s.home) > 0 }

// has reports whether an update node's parameter is updated in ranges.
func (s Shards) has(n *graph.Node) bool {
	if !s.On() || n.Phase != graph.Update || len(n.In) == 0 || n.In[0].Kind != graph.Variable {
		return false
	}
	_, has := s.home[n.In[0].Name]
	return has
}

// begin is the first element of a replica's range of a tensor: the multiple of the
// unit that is nearest to an equal share.
func (s Shards) begin(replica, elems int) int {
	if replica == s.replicas {
		return elems
	}
	units := (2*replica*elems/s.replicas + s.unit) / (2 * s.unit)
	return min(elems, units*s.unit)
}

// shardRange is a range of a tensor and the replica that updates it.
type shardRange struct{ from, count, replica int }

// cuts are the first elements of a tensor's ranges, and its end: about equal shares, but none where a tensor has
// fewer units than there are replicas.
func (s Shards) cuts(elems int) (list []int) {
	for r := range s.replicas {
		if from := s.begin(r, elems); from < s.begin(r+1, elems) {
			list = append(list, from)
		}
	}
	return append(list, elems)
}

// ranges lists the ranges of a parameter, cut into pieces of at most so many elements; 0
// leaves them whole.
func (s Shards) ranges(parameter string, elems, most int) (list []shardRange) {
	cuts := s.cuts(elems)
	for i, replica := range s.owners[parameter] {
		from, end := cuts[i], cuts[i+1]
		size := most
		if size == 0 {
			size = elems
		}
		for ; from < end; from += size {
			list = append(list, shardRange{from, min(size, end-from), replica})
		}
	}
	return list
}

// part is a range of a parameter, or a whole one, that a replica is to update.
type part struct {
	node  *graph.Node
	place int   // of the range; -1: it is whole
	bytes int64 // of variables that the update changes
}

// deal gives each range and each other parameter to the replica of its group that changes the fewest bytes so far,
// the largest first. So the shares differ little, however few ranges a parameter has.
func (s *Shards) deal(idx *nodes.Index, pl *place.Placement, updates []*graph.Node) {
	var parts []part
	for _, n := range updates {
		all := changed(idx, n)
		if !s.has(n) {
			parts = append(parts, part{n, -1, all})
			continue
		}
		elems := n.In[0].Meta.Elems()
		cuts := s.cuts(elems)
		s.owners[n.In[0].Name] = make([]int, len(cuts)-1)
		for i := range len(cuts) - 1 {
			parts = append(parts, part{n, i, all / int64(elems) * int64(cuts[i+1]-cuts[i])})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.bytes, a.bytes) })
	load := make([][]int64, pl.Groups) // bytes by replica
	for i := range load {
		load[i] = make([]int64, s.replicas)
	}
	for _, p := range parts {
		at := load[pl.Node[p.node.ID]]
		least := slices.Index(at, slices.Min(at))
		at[least] += p.bytes
		if p.place < 0 {
			s.whole[p.node.ID] = least
		} else {
			s.owners[p.node.In[0].Name][p.place] = least
		}
	}
}

// The methods of ranger in this file cut an update into ranges of several replicas.
// Each replica has the gradient's sum, the optimizer's state and the new weights of
// its ranges as tensors of their own. One of them joins the new weights. A sum of
// squares of the gradient, for its norm, is added up from those of the ranges.

// ShardsOf chooses the parameters that replicas update in ranges: those with more
// than half of a replica's fair share of their group's update. Smaller ones can be
// shared whole about as evenly. Ranges begin at multiples of unit; 0: of ops.SumElems.
func ShardsOf(idx *nodes.Index, pl *place.Placement, replicas, unit int) Shards {
	s := Shards{replicas: replicas, unit: unit, home: map[string]int{}, owners: map[string][]int{}, whole: map[int]int{}}
	if unit == 0 {
		s.unit = ops.SumElems
	}
	updates := largestFirst(idx)
	total, count := make([]int64, pl.Groups), make([]int, pl.Groups)
	for _, n := range updates {
		total[pl.Node[n.ID]] += changed(idx, n)
	}
	c := newRanger(idx, Ranges{}, s)
	for _, n := range updates {
		at := pl.Node[n.ID]
		if 2*int64(s.replicas)*changed(idx, n) > total[at] && n.In[0].Meta.Elems() >= 2*s.unit && c.cuttable(n) && c.divisible(c.gradientOf(n), n) {
			s.home[n.In[0].Name] = count[at] % s.replicas
			count[at]++
		}
	}
	s.deal(idx, pl, updates)
	return s
}

// gradientOf is the gradient that an update with state reads.
func (c *ranger) gradientOf(n *graph.Node) *graph.Value {
	places := ops.Ranged{Op: n.Op}.Places()
	for i, v := range n.In {
		if !slices.Contains(places, i) && v.Meta.Equal(n.In[0].Meta) {
			return v
		}
	}
	return nil
}

// divisible reports whether a gradient can be summed range by range: it is a sum over
// microbatches or adds up such sums, and besides reader, only norms read it.
func (c *ranger) divisible(v *graph.Value, reader *graph.Node) bool {
	if v == nil || c.idx.Output[v.ID] {
		return false
	}
	for _, r := range c.idx.Readers[v.ID] {
		if _, norm := r.Op.(ops.SumSquares); r != reader && !norm {
			return false
		}
	}
	if v.Kind == graph.Summed {
		return true
	}
	n := v.Node
	if n == nil || n.Phase != graph.Update || n.Op.Kind() != ops.AddOp.Kind() || n.In[0] == n.In[1] {
		return false
	}
	for _, in := range n.In {
		if !in.Meta.Equal(v.Meta) || !c.divisible(in, n) {
			return false
		}
	}
	return true
}

// divide notes the ranges of the gradients that updates in ranges read.
func (c *ranger) divide() {
	for _, n := range c.idx.Updates {
		if !c.sh.has(n) || !c.cuttable(n) {
			continue
		}
		most := 0
		if c.r.On() && c.lease(n) > c.r.above {
			most = c.r.size(n.In[0])
		}
		c.divided(c.gradientOf(n), c.sh.ranges(n.In[0].Name, n.In[0].Meta.Elems(), most))
	}
}

func (c *ranger) divided(v *graph.Value, ranges []shardRange) {
	c.ranges[v] = ranges
	if v.Kind == graph.Computed {
		for _, in := range v.Node.In {
			c.divided(in, ranges)
		}
	}
}

// shard appends the nodes that update n's parameter in ranges.
func (c *ranger) shard(n *graph.Node) {
	g, w := c.gradientOf(n), n.In[0]
	home := c.sh.home[w.Name]
	var parts []*graph.Value
	for _, r := range c.ranges[g] {
		in := c.substituted(n.In)
		in[slices.Index(n.In, g)] = c.rangeOf(g, r)
		parts = append(parts, c.piece(n, ops.Ranged{Op: n.Op, From: r.from, Count: r.count, Apart: true}, in, r.replica).Out[0])
	}
	if w.Meta.Shape.Rank() != 1 {
		flat := c.value(n.Out[0], 0, w.Meta.Elems())
		flat.Meta.Shape = shape.Of(w.Meta.Elems())
		c.append(n, ops.Concat{}, parts, home).give(flat)
		c.replace(n, ops.Reshape{Shape: w.Meta.Shape}, flat)
		return
	}
	c.replace(n, ops.Concat{}, parts...)
}

// squares appends the nodes that add up the squares of a gradient in ranges.
func (c *ranger) squares(n *graph.Node) {
	var parts []*graph.Value
	for _, r := range c.ranges[n.In[0]] {
		v := c.value(n.Out[0], r.from, r.count)
		v.Meta = shape.I32((r.count+ops.SumElems-1)/ops.SumElems, 2)
		c.append(n, ops.SquareParts{}, []*graph.Value{c.rangeOf(n.In[0], r)}, r.replica).give(v)
		parts = append(parts, v)
	}
	c.replace(n, ops.SquareTotal{}, parts...)
}

// rangeOf is a range of a gradient. It appends the nodes that add up those of sums.
func (c *ranger) rangeOf(v *graph.Value, r shardRange) *graph.Value {
	key := valueRange{v, r.from}
	if x := c.rangeAt[key]; x != nil {
		return x
	}
	x := c.value(v, r.from, r.count)
	x.Meta.Shape = shape.Of(r.count)
	c.rangeAt[key] = x
	if v.Kind == graph.Summed {
		x.Range = &graph.Range{Of: v, From: r.from}
		c.cut.sums[x.ID] = r.replica
		return x
	}
	in := []*graph.Value{c.rangeOf(v.Node.In[0], r), c.rangeOf(v.Node.In[1], r)}
	c.append(v.Node, v.Node.Op, in, r.replica).give(x)
	return x
}

// valueRange is a range of a value: its first element tells it from others.
type valueRange struct {
	of   *graph.Value
	from int
}

// replace appends a node that computes n's first output in another way.
func (c *ranger) replace(n *graph.Node, op graph.Op, in ...*graph.Value) {
	x := *n
	x.Op, x.In, x.Out = op, in, nil
	c.keep(&x, n.Out[:1])
}

// keep appends a node with new values in place of out. They have the same IDs.
func (c *ranger) keep(x *graph.Node, out []*graph.Value) {
	for _, v := range out {
		y := new(graph.Value)
		*y = *v
		y.Node = x
		c.g.Values[v.ID], c.instead[v] = y, y
		x.Out = append(x.Out, y)
	}
	c.g.Nodes = append(c.g.Nodes, x)
}

// rewire appends a node that is not cut. It is another one if a value that it reads was
// replaced.
func (c *ranger) rewire(n *graph.Node) {
	in := c.substituted(n.In)
	if slices.Equal(in, n.In) {
		c.g.Nodes = append(c.g.Nodes, n)
		return
	}
	x := *n
	x.In, x.Out = in, nil
	c.keep(&x, n.Out)
}

// substituted is values, each as it is now.
func (c *ranger) substituted(values []*graph.Value) []*graph.Value {
	list := slices.Clone(values)
	for i, v := range list {
		if now := c.instead[v]; now != nil {
			list[i] = now
		}
	}
	return list
}
