package place

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// placeUpdates places the nodes of the update. The order matters, since each kind of node goes
// by those that have a place already:
//
//  1. a node that assigns a weight goes to the weight;
//  2. a tensor, such as a momentum, goes to the node that reads it;
//  3. a reduction, such as a norm, goes to its largest input;
//  4. a scalar, such as the learning rate, goes to its readers;
//  5. a counter or a ring of losses, which all stages share, comes last.
func (p *placer) placeUpdates() {
	p.placeAssigning()
	p.placeLeading()
	p.placeReducing()
	p.placeScalars()
	p.placeShared()
}

// updates calls f for the update nodes that are not placed, first to last or
// last to first; f returns false to leave a node for later.
func (p *placer) updates(backwards bool, f func(n *graph.Node) (group int, ok bool)) {
	nodes := p.idx.Graph.Nodes
	for i, n := range stop.Each(p.idx.Stop, nodes) {
		if backwards {
			n = nodes[len(nodes)-1-i]
		}
		if _, has := p.Of(n); has || n.Phase != graph.Update {
			continue
		}
		if g, ok := f(n); ok {
			p.Node[n.ID] = g
		}
	}
}

// shared reports whether n assigns a counter or a metric.
func (p *placer) shared(n *graph.Node) bool {
	for _, out := range n.Out {
		if v := p.idx.Variable[out.ID]; v != nil && (v.Role == graph.Counter || v.Role == graph.Metric) {
			return true
		}
	}
	return false
}

// placeAssigning puts a node that assigns a parameter, statistic or cache on its
// owner's group; the optimizer state that it also assigns goes with it.
func (p *placer) placeAssigning() {
	p.updates(false, func(n *graph.Node) (int, bool) {
		for _, out := range n.Out {
			v := p.idx.Variable[out.ID]
			if v == nil || p.shared(n) {
				continue
			}
			if g, ok := p.Owner[v.Name]; ok {
				return g, true
			}
		}
		return 0, false
	})
}

// placeLeading puts tensors (gradients being summed, momentum) on the group of
// their readers, where these agree.
func (p *placer) placeLeading() {
	p.updates(true, func(n *graph.Node) (int, bool) {
		if nodes.Scalars(n.Out) || p.shared(n) {
			return 0, false
		}
		groups := p.readers(n)
		return groups.Group, groups.State == 1
	})
}

// placeReducing puts a node that reads tensors on the group that has most of the bytes it
// reads, so that the least is copied. Of equal groups the last one wins.
func (p *placer) placeReducing() {
	p.updates(false, func(n *graph.Node) (int, bool) {
		if nodes.Scalars(n.In) || p.shared(n) {
			return 0, false
		}
		bytes := map[int]int64{}
		for _, v := range n.In {
			if g, ok := p.at(v); ok && !nodes.Scalar(v) {
				bytes[g] += v.Meta.Bytes()
			}
		}
		best := p.last()
		for _, g := range slices.Backward(slices.Sorted(maps.Keys(bytes))) {
			if bytes[g] > bytes[best] {
				best = g
			}
		}
		return best, len(bytes) > 0
	})
}

// placeScalars puts the other nodes that are not shared where their readers are
// if these agree, else on the last group; a node without a reader goes by its
// inputs.
func (p *placer) placeScalars() {
	p.updates(true, func(n *graph.Node) (int, bool) {
		if p.shared(n) {
			return 0, false
		}
		groups := p.readers(n)
		if groups.State == 0 {
			p.inputs(n, groups)
		}
		return groups.or(p.last()), true
	})
}

// readers are the groups of the nodes that read a node's outputs.
func (p *placer) readers(n *graph.Node) *Agreement {
	groups := NewAgreement()
	for _, out := range n.Out {
		for _, r := range p.idx.Readers[out.ID] {
			if g, ok := p.Of(r); ok {
				groups.Add(g)
			}
		}
	}
	return groups
}

// inputs adds the groups of a node's inputs.
func (p *placer) inputs(n *graph.Node, groups *Agreement) {
	for _, v := range n.In {
		if g, ok := p.at(v); ok {
			groups.Add(g)
		}
	}
}

// placeShared puts a node that assigns a counter or a metric. If all that read the variable or
// the node's outputs are on one group, it goes there; if they are on several, it goes to
// the last group. A node that nothing reads goes by its inputs in the same way.
func (p *placer) placeShared() {
	p.updates(false, func(n *graph.Node) (int, bool) {
		groups := NewAgreement()
		for _, out := range n.Out {
			readers := p.idx.Readers[out.ID]
			if v := p.idx.Variable[out.ID]; v != nil {
				readers = append(readers[:len(readers):len(readers)], p.idx.Readers[v.ID]...)
			}
			for _, r := range readers {
				if g, ok := p.Of(r); ok {
					groups.Add(g)
				}
			}
		}
		if groups.State == 0 {
			p.inputs(n, groups)
		}
		return groups.or(p.last()), true
	})
}
