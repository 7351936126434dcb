package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// place is pass 4: the group of every node and variable, given the group of
// each block.
func place(idx *index, groups int, blocks map[string]int) *placement {
	p := &placer{&placement{groups: groups, node: slices.Repeat([]int{nowhere}, idx.ids), owner: map[string]int{}}, idx, blocks}
	p.placeLayers()
	p.placeSources(graph.Forward)
	p.placeGradients()
	p.placeSources(graph.Backward)
	p.placeRest()
	p.ownParameters()
	p.placeUpdates()
	p.ownRest()
	return p.placement
}

// placeRest puts forward and backward nodes that nothing ties to a layer on
// the last group, where the loss is.
func (p *placer) placeRest() {
	for _, n := range stop.Each(p.idx.stop, p.idx.g.Nodes) {
		if _, has := p.of(n); !has && n.Phase != graph.Update {
			p.node[n.ID] = p.last()
		}
	}
}

// ownParameters gives parameters, statistics and caches to the group that reads them
// first, else to the group of their layer.
func (p *placer) ownParameters() {
	for _, v := range stop.Each(p.idx.stop, p.idx.g.Vars) {
		if !ownsItself(v.Role) {
			continue
		}
		best, ok := 0, false
		for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
			for _, r := range p.idx.readers[v.ID] {
				if g := p.node[r.ID]; r.Phase == phase && (!ok || g < best) {
					best, ok = g, true
				}
			}
			if ok {
				break
			}
		}
		if !ok {
			best, ok = p.blocks[blockOf(v.Layer)]
		}
		if ok {
			p.owner[v.Name] = best
		}
	}
}

// ownRest gives every other variable to the group of the node that assigns it,
// else to the group of its readers if they agree, else to the last group.
func (p *placer) ownRest() {
	for _, v := range stop.Each(p.idx.stop, p.idx.g.Vars) {
		if _, has := p.owner[v.Name]; has {
			continue
		}
		if n := p.idx.assigned[v.ID]; n != nil {
			p.owner[v.Name] = p.node[n.ID]
			continue
		}
		groups := newAgreement()
		for _, r := range p.idx.readers[v.ID] {
			groups.add(p.node[r.ID])
		}
		p.owner[v.Name] = groups.or(p.last())
	}
}
