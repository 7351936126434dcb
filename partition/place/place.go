package place

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// Nodes is pass 4: the group of every node and variable, given the group of
// each block.
func Nodes(idx *nodes.Index, groups int, blocks map[string]int) *Placement {
	p := &placer{&Placement{Groups: groups, Node: slices.Repeat([]int{Nowhere}, idx.IDs), Owner: map[string]int{}}, idx, blocks}
	p.placeLayers()
	p.placeSources(graph.Forward)
	p.placeGradients()
	p.placeSources(graph.Backward)
	p.placeRest()
	p.ownParameters()
	p.placeUpdates()
	p.ownRest()
	return p.Placement
}

// placeRest puts forward and backward nodes that nothing ties to a layer on
// the last group, where the loss is.
func (p *placer) placeRest() {
	for _, n := range stop.Each(p.idx.Stop, p.idx.Graph.Nodes) {
		if _, has := p.Of(n); !has && n.Phase != graph.Update {
			p.Node[n.ID] = p.last()
		}
	}
}

// ownParameters gives parameters, statistics and caches to the group that reads them
// first, else to the group of their layer.
func (p *placer) ownParameters() {
	for _, v := range stop.Each(p.idx.Stop, p.idx.Graph.Vars) {
		if !nodes.OwnsItself(v.Role) {
			continue
		}
		best, ok := 0, false
		for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
			for _, r := range p.idx.Readers[v.ID] {
				if g := p.Node[r.ID]; r.Phase == phase && (!ok || g < best) {
					best, ok = g, true
				}
			}
			if ok {
				break
			}
		}
		if !ok {
			best, ok = p.blocks[nodes.BlockOf(v.Layer)]
		}
		if ok {
			p.Owner[v.Name] = best
		}
	}
}

// ownRest gives every other variable to the group of the node that assigns it,
// else to the group of its readers if they agree, else to the last group.
func (p *placer) ownRest() {
	for _, v := range stop.Each(p.idx.Stop, p.idx.Graph.Vars) {
		if _, has := p.Owner[v.Name]; has {
			continue
		}
		if n := p.idx.Assigned[v.ID]; n != nil {
			p.Owner[v.Name] = p.Node[n.ID]
			continue
		}
		groups := NewAgreement()
		for _, r := range p.idx.Readers[v.ID] {
			groups.Add(p.Node[r.ID])
		}
		p.Owner[v.Name] = groups.or(p.last())
	}
}
