package place

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// Placement is what the pass decides: the group of every node and variable. Groups are the
// stages of a plan. While blocks are measured for the search of a cut, each block is a group.
// Pass 4 adds Shared; later passes only read a placement.
type Placement struct {
	Groups int
	Node   []int          // by Node.ID: its group; Nowhere until it is placed
	Owner  map[string]int // by variable name: the group that keeps the variable
	Shared *Shares        // how replicas share the update; nil: the first replica runs all of it
	Moved  []Moved        // nodes of the update that another device runs, since their own cannot
}

// Replica is the index of the replica that runs a node of the update.
func (p *Placement) Replica(n *graph.Node) int {
	if p.Shared == nil {
		return 0
	}
	return p.Shared.Node[n.ID]
}

// Shares says which replica does which part of the update.
type Shares struct {
	Node []int // by Node.ID: the replica that runs the node
	Sum  []int // by Value.ID: the replica where the sum of all replicas' gradients ends
}

// Nowhere is the group of a node that is not placed yet.
const Nowhere = -1

// Of is the group of a node; ok is false if the node is not placed yet.
func (p *Placement) Of(n *graph.Node) (group int, ok bool) {
	group = p.Node[n.ID]
	return group, group != Nowhere
}

// placer fills a placement. A node or variable without an entry is not placed
// yet. A call of [Nodes] owns it, and gives its placement away.
type placer struct {
	*Placement
	idx    *nodes.Index
	blocks map[string]int // group of each block
}

func (p *placer) last() int { return p.Groups - 1 }

// at is the group of the node that makes v, or of the variable v. ok is false for
// inputs, and for values that are not placed yet.
func (p *placer) at(v *graph.Value) (group int, ok bool) {
	if part := p.idx.Part[v.ID]; part != nil {
		v = part
	}
	switch v.Kind {
	case graph.Computed:
		group, ok = p.Of(v.Node)
	case graph.Variable:
		group, ok = p.Owner[v.Name]
		if !ok && v.Layer != nil && nodes.OwnsItself(v.Role) {
			group, ok = p.blocks[v.Layer.Block]
		}
	}
	return group, ok
}

// Agreement collects groups, to tell whether all are the same.
type Agreement struct {
	Group int
	State int // how many different ones were seen: 0, 1, or 2 for more
}

// NewAgreement has no group yet.
func NewAgreement() *Agreement { return &Agreement{} }

// Add collects a group.
func (a *Agreement) Add(g int) {
	switch {
	case a.State == 0:
		a.Group, a.State = g, 1
	case a.Group != g:
		a.State = 2
	}
}

// or is the group if exactly one was collected, else the given one.
func (a *Agreement) or(g int) int {
	if a.State == 1 {
		return a.Group
	}
	return g
}

// Moved is a node that is elsewhere than its readers, since their device does not run it.
type Moved struct {
	Node     *graph.Node
	From, To int // groups
	Why      error
}

// Nodes is the pass but for its end, [MoveUnsupported]: the group of every node and
// variable, given the group of each block.
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
