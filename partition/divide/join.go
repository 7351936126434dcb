package divide

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/partition/nodes"
)

// Join is a graph that reads averages which are in ranges among vars, the variables of another
// graph of the model: each is joined before its first reader. It is g where there are none.
func Join(g *graph.Graph, vars []*graph.Value) *graph.Graph {
	ranges := map[string][]*graph.Value{}
	for _, v := range vars {
		if v.Range != nil && v.Role == graph.Average {
			ranges[v.Range.Of.Name] = append(ranges[v.Range.Of.Name], v)
		}
	}
	ids := 0
	for _, n := range g.Nodes {
		ids = max(ids, n.ID+1)
	}
	j := &joiner{ranger: newRanger(&nodes.Index{Graph: g, IDs: ids}, Ranges{}, Shards{}), next: ids, parts: map[*graph.Value][]*graph.Value{}}
	for _, v := range g.Vars {
		if list := ranges[v.Name]; list != nil && v.Role == graph.Average {
			j.declare(v, list)
		} else {
			j.g.Vars = append(j.g.Vars, v)
		}
	}
	if len(j.parts) == 0 {
		return g
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if j.parts[v] != nil && j.instead[v] == nil {
				j.join(v, n.Phase)
			}
		}
		j.rewire(n)
	}
	j.g.Outputs = j.substituted(j.g.Outputs)
	j.assign()
	return j.g
}

// joiner makes the graph of a call of [Join], which owns it.
type joiner struct {
	*ranger
	next  int                             // the ID of the next node
	parts map[*graph.Value][]*graph.Value // of each variable that is in ranges
}

// declare gives v the ranges that another graph has of it.
func (j *joiner) declare(v *graph.Value, ranges []*graph.Value) {
	for _, r := range ranges {
		p := j.value(v, r.Range.From, r.Meta.Elems())
		p.Meta, p.Range = r.Meta, &graph.Range{Of: v, From: r.Range.From}
		j.parts[v] = append(j.parts[v], p)
	}
	j.g.Vars = append(j.g.Vars, j.parts[v]...)
}

// join appends the nodes that join the ranges of v, and has what follows read their result.
func (j *joiner) join(v *graph.Value, p graph.Phase) {
	whole := new(graph.Value)
	*whole = graph.Value{ID: v.ID, Name: v.Name, Meta: v.Meta}
	j.g.Values[v.ID], j.instead[v] = whole, whole
	if v.Meta.Shape.Rank() == 1 {
		j.node(v, p, ops.Concat{}, j.parts[v], whole)
		return
	}
	flat := j.value(whole, 0, v.Meta.Elems())
	flat.Name, flat.Meta.Shape = v.Name+" joined", shape.Of(v.Meta.Elems())
	j.node(v, p, ops.Concat{}, j.parts[v], flat)
	j.node(v, p, ops.Reshape{Shape: v.Meta.Shape}, []*graph.Value{flat}, whole)
}

// node appends a node of v's layer.
func (j *joiner) node(v *graph.Value, p graph.Phase, op graph.Op, in []*graph.Value, out *graph.Value) {
	x := newNode{&graph.Node{ID: j.next, Op: op, In: in, Phase: p, Layer: v.Layer}}
	x.give(out)
	j.next++
	j.g.Nodes = append(j.g.Nodes, x.Node)
}
