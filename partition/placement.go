package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// placement is the group (a stage, or a block while costs are counted) of
// every node and variable.
type placement struct {
	groups int
	node   map[int]int    // by Node.ID
	owner  map[string]int // by variable name
}

// placer fills a placement. A node or variable without an entry has no place
// yet.
type placer struct {
	*placement
	idx    *index
	blocks map[string]int // group of each block
}

// place is pass 4: where every node and variable goes, given the group of each
// block.
func place(idx *index, groups int, blocks map[string]int) *placement {
	p := &placer{&placement{groups, map[int]int{}, map[string]int{}}, idx, blocks}
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

func (p *placer) last() int { return p.groups - 1 }

// at is the group of what makes v; ok is false for what is fed, and for what
// has no place yet.
func (p *placer) at(v *graph.Value) (group int, ok bool) {
	if part := p.idx.part[v]; part != nil {
		v = part
	}
	switch v.Kind {
	case graph.Computed:
		group, ok = p.node[v.Node.ID]
	case graph.Variable:
		group, ok = p.owner[v.Name]
		if !ok && v.Layer != nil && (v.Role == graph.Parameter || v.Role == graph.Statistic) {
			group, ok = p.blocks[v.Layer.Block]
		}
	}
	return group, ok
}

// placeLayers puts a forward node on its block's group, or, without a layer,
// on the latest group among its inputs.
func (p *placer) placeLayers() {
	for _, n := range p.idx.g.Nodes {
		if n.Phase != graph.Forward {
			continue
		}
		g, ok := p.blocks[blockOf(n.Layer)]
		if !ok {
			g, ok = p.latest(n, graph.Forward)
		}
		if ok {
			p.node[n.ID] = g
		}
	}
}

// latest is the last group among the inputs of n that a phase made, or that
// are variables.
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

// placeSources puts what has no placed input (constants and what is computed
// of them) where its first reader of that phase is.
func (p *placer) placeSources(phase graph.Phase) {
	for i := len(p.idx.g.Nodes) - 1; i >= 0; i-- {
		n := p.idx.g.Nodes[i]
		if _, has := p.node[n.ID]; has || n.Phase > phase {
			continue
		}
		best, ok := 0, false
		for _, out := range n.Out {
			for _, r := range p.idx.readers[out] {
				g, has := p.node[r.ID]
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
			p.node[n.ID] = best
		}
	}
}

// placeGradients puts a backward node where the node is that it
// differentiates, else on its layer's group, else on the earliest group among
// the gradients it reads, else on the latest among the forward values.
func (p *placer) placeGradients() {
	for _, n := range p.idx.g.Nodes {
		if n.Phase != graph.Backward {
			continue
		}
		g, ok := 0, false
		if n.Of != nil {
			g, ok = p.node[n.Of.ID]
		}
		if !ok {
			g, ok = p.blocks[blockOf(n.Layer)]
		}
		if !ok {
			g, ok = p.earliestGradient(n)
		}
		if !ok {
			g, ok = p.latest(n, graph.Forward)
		}
		if ok {
			p.node[n.ID] = g
		}
	}
}

func (p *placer) earliestGradient(n *graph.Node) (group int, ok bool) {
	for _, v := range n.In {
		if v.Kind != graph.Computed || v.Node.Phase != graph.Backward {
			continue
		}
		if g, has := p.node[v.Node.ID]; has && (!ok || g < group) {
			group, ok = g, true
		}
	}
	return group, ok
}

// placeRest puts forward and backward nodes that nothing ties to a layer on
// the last group, where the loss is.
func (p *placer) placeRest() {
	for _, n := range p.idx.g.Nodes {
		if _, has := p.node[n.ID]; !has && n.Phase != graph.Update {
			p.node[n.ID] = p.last()
		}
	}
}

// ownParameters gives parameters and statistics to the group that reads them
// first, else to their layer's.
func (p *placer) ownParameters() {
	for _, v := range p.idx.g.Vars {
		if v.Role != graph.Parameter && v.Role != graph.Statistic {
			continue
		}
		best, ok := 0, false
		for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
			for _, r := range p.idx.readers[v] {
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

// ownRest gives every other variable to the node that assigns it, else to its
// readers where they agree, else to the last group.
func (p *placer) ownRest() {
	for _, v := range p.idx.g.Vars {
		if _, has := p.owner[v.Name]; has {
			continue
		}
		if n := p.idx.assigned[v]; n != nil {
			p.owner[v.Name] = p.node[n.ID]
			continue
		}
		groups := newAgreement()
		for _, r := range p.idx.readers[v] {
			groups.add(p.node[r.ID])
		}
		p.owner[v.Name] = groups.or(p.last())
	}
}

// agreement collects groups and tells whether they are one.
type agreement struct {
	group int
	state int // how many different ones were seen: 0, 1, or 2 for more
}

func newAgreement() *agreement { return &agreement{} }

func (a *agreement) add(g int) {
	switch {
	case a.state == 0:
		a.group, a.state = g, 1
	case a.group != g:
		a.state = 2
	}
}

// or is the one group, or the given one where there is none or several.
func (a *agreement) or(g int) int {
	if a.state == 1 {
		return a.group
	}
	return g
}

// checkEdges makes sure that forward values only go to the same or a later
// stage, and gradients the other way.
func checkEdges(idx *index, pl *placement) error {
	for _, n := range idx.g.Nodes {
		for _, v := range n.In {
			if v.Kind != graph.Computed || n.Phase == graph.Update || v.Node.Phase != n.Phase {
				continue
			}
			from, to := pl.node[v.Node.ID], pl.node[n.ID]
			if n.Phase == graph.Forward && from > to || n.Phase == graph.Backward && from < to {
				return fmt.Errorf("%w: in the %v, %s of stage %d makes %s, which %s of stage %d reads, but the %v runs the stages in the other order; put both in one stage",
					ErrStages, n.Phase, describe(v.Node), from, v.Name, describe(n), to, n.Phase)
			}
		}
	}
	return nil
}

// describe names a node by its layer.
func describe(n *graph.Node) string {
	if n.Layer == nil {
		return n.Op.Kind()
	}
	return n.Layer.String()
}
