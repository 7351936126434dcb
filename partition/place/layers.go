package place

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// placeLayers puts a forward node on its block's group, or, without a layer,
// on the latest group among its inputs.
func (p *placer) placeLayers() {
	for _, n := range stop.Each(p.idx.Stop, p.idx.Graph.Nodes) {
		if n.Phase != graph.Forward {
			continue
		}
		g, ok := p.blocks[nodes.BlockOf(n.Layer)]
		if !ok {
			g, ok = p.latest(n, graph.Forward)
		}
		if ok {
			p.Node[n.ID] = g
		}
	}
}

// latest is the highest group among the inputs of n. Results of another phase do not count;
// variables do.
func (p *placer) latest(n *graph.Node, phase graph.Phase) (group int, ok bool) {
	for _, v := range n.In {
		if v.Kind == graph.Computed && v.Node.Phase != phase {
			continue
		}
		if g, has := p.at(v); has && (!ok || g > group) {
			group, ok = g, true
		}
	}
	return group, ok
}

// placeSources puts nodes without a placed input (constants and what follows
// from them) where their first reader of that phase is.
func (p *placer) placeSources(phase graph.Phase) {
	for i := len(p.idx.Graph.Nodes) - 1; i >= 0; i-- {
		n := p.idx.Graph.Nodes[i]
		if p.idx.Stop.Done() {
			return
		}
		if _, has := p.Of(n); has || n.Phase > phase {
			continue
		}
		best, ok := 0, false
		for _, out := range n.Out {
			for _, r := range p.idx.Readers[out.ID] {
				g, has := p.Of(r)
				if !has || r.Phase != phase {
					continue
				}
				// The first to run: forward goes up the groups, backward down.
				if !ok || phase == graph.Forward && g < best || phase == graph.Backward && g > best {
					best, ok = g, true
				}
			}
		}
		if ok {
			p.Node[n.ID] = best
		}
	}
}

// placeGradients puts each backward node on the first of these groups that there is:
//
//  1. for a sum of gradients that one group makes, that group, so that a single tensor
//     leaves it;
//  2. the group of the forward node that it differentiates;
//  3. the group of its layer;
//  4. the lowest group of the gradients that it reads;
//  5. the highest group of the forward values that it reads.
func (p *placer) placeGradients() {
	for _, n := range stop.Each(p.idx.Stop, p.idx.Graph.Nodes) {
		if n.Phase != graph.Backward {
			continue
		}
		g, ok := p.whereSummed(n)
		if !ok && n.Of != nil {
			g, ok = p.Of(n.Of)
		}
		if !ok {
			g, ok = p.blocks[nodes.BlockOf(n.Layer)]
		}
		if !ok {
			g, ok = p.earliestGradient(n)
		}
		if !ok {
			g, ok = p.latest(n, graph.Forward)
		}
		if ok {
			p.Node[n.ID] = g
		}
	}
}

// whereSummed is the group that makes all gradients that n adds; ok is false if n
// does something else, or if there are several groups.
func (p *placer) whereSummed(n *graph.Node) (group int, ok bool) {
	if n.Op != ops.AddOp {
		return 0, false
	}
	groups := NewAgreement()
	for _, v := range n.In {
		if v.Kind != graph.Computed || v.Node.Phase != graph.Backward {
			return 0, false
		}
		groups.Add(p.Node[v.Node.ID])
	}
	return groups.Group, groups.State == 1 && groups.Group != Nowhere
}

// earliestGradient is the lowest group among the gradients that n reads.
func (p *placer) earliestGradient(n *graph.Node) (group int, ok bool) {
	for _, v := range n.In {
		if v.Kind != graph.Computed || v.Node.Phase != graph.Backward {
			continue
		}
		if g, has := p.Of(v.Node); has && (!ok || g < group) {
			group, ok = g, true
		}
	}
	return group, ok
}
