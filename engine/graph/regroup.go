package graph

import "github.com/berth-ml/berth/internal/stop"

// Regroup is a copy of g whose nodes are in other blocks: block names that of each forward node
// of a layer. A layer whose nodes are then in several blocks has a copy for each. A node of the
// backward pass is where the node is that it differentiates, if that is of the same layer, and a
// variable where the first node of its block is that reads it, or else the first of all. IDs and names stay.
//
// ask is called now and then; its error ends the work. Nil means never.
func Regroup(g *Graph, block func(n *Node) string, ask func() error) (*Graph, error) {
	check := stop.When(ask)
	c := newCopier(g, nodeIDs(g), check)
	if err := check.Err(); err != nil {
		return nil, err
	}
	r := regrouper{}
	placed, first := make([]bool, len(g.Values)), map[string]string{} // first is the new block of the first node of each
	for _, n := range stop.Each(check, g.Nodes) {
		if n.Phase != Forward || n.Layer == nil {
			continue
		}
		if first[n.Layer.Block] == "" {
			first[n.Layer.Block] = block(n)
		}
		for _, v := range n.In {
			if v.Kind == Variable && v.Layer != nil && v.Layer.Block == n.Layer.Block && !placed[v.ID] {
				placed[v.ID] = true
				c.values[v.ID].Layer = r.in(v.Layer, block(n))
			}
		}
	}
	for _, v := range g.Vars {
		if v.Layer != nil && !placed[v.ID] && first[v.Layer.Block] != "" {
			c.values[v.ID].Layer = r.in(v.Layer, first[v.Layer.Block])
		}
	}
	layers := make([]*Layer, len(c.nodes)) // by Node.ID; those of all are asked for before any is changed
	for id, n := range stop.Each(check, c.nodes) {
		switch {
		case n == nil || n.Layer == nil:
		case n.Phase == Forward:
			layers[id] = r.in(n.Layer, block(n))
		case n.Phase == Backward && n.Of != nil && n.Of.Layer == n.Layer:
			layers[id] = r.in(n.Layer, block(n.Of))
		}
	}
	for id, l := range layers {
		if l != nil {
			c.nodes[id].Layer = l
		}
	}
	return c.g, check.Err()
}

// regrouper has the copies of layers, by block. A call of [Regroup] owns it.
type regrouper map[layerIn]*Layer

type layerIn struct {
	layer *Layer
	block string
}

// in is the layer, or the copy of it that is in that block.
func (r regrouper) in(l *Layer, block string) *Layer {
	if l.Block == block {
		return l
	}
	x := r[layerIn{l, block}]
	if x == nil {
		x = new(Layer)
		*x = *l
		x.Block = block
		r[layerIn{l, block}] = x
	}
	return x
}
