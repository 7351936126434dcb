package partition

import (
	"github.com/berth-ml/berth/engine/graph"
)

// placement is the group (a stage, or a block while costs are counted) of
// every node and variable.
type placement struct {
	groups int
	node   []int          // by Node.ID; nowhere before the node is placed
	owner  map[string]int // by variable name
	shared *shares        // of the update among replicas; nil: the first one runs it
	moved  []moved        // nodes of the update that are not where they would be
}

// replica is the replica that runs a node of the update.
func (p *placement) replica(n *graph.Node) int {
	if p.shared == nil {
		return 0
	}
	return p.shared.node[n.ID]
}

// shares are the replicas that run the nodes of the update, and that sums end on.
type shares struct {
	node []int // by Node.ID
	sum  []int // by Value.ID
}

const nowhere = -1

// of is the group of a node; ok is false if the node is not placed yet.
func (p *placement) of(n *graph.Node) (group int, ok bool) {
	group = p.node[n.ID]
	return group, group != nowhere
}

// placer fills a placement. A node or variable without an entry is not placed
// yet.
type placer struct {
	*placement
	idx    *index
	blocks map[string]int // group of each block
}

func (p *placer) last() int { return p.groups - 1 }

// at is the group of the node that makes v, or of the variable v. ok is false for
// inputs, and for values that are not placed yet.
func (p *placer) at(v *graph.Value) (group int, ok bool) {
	if part := p.idx.part[v.ID]; part != nil {
		v = part
	}
	switch v.Kind {
	case graph.Computed:
		group, ok = p.of(v.Node)
	case graph.Variable:
		group, ok = p.owner[v.Name]
		if !ok && v.Layer != nil && ownsItself(v.Role) {
			group, ok = p.blocks[v.Layer.Block]
		}
	}
	return group, ok
}

// agreement collects groups, to tell whether all are the same.
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

// or is the group if exactly one was collected, else the given one.
func (a *agreement) or(g int) int {
	if a.state == 1 {
		return a.group
	}
	return g
}

// moved is a node that is elsewhere than its readers, since their device does not run it.
type moved struct {
	node     *graph.Node
	from, to int // groups
	why      error
}
