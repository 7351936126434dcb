package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// grouped is a graph's nodes by group. It answers questions about neighbouring
// groups in time that grows with their own nodes, not with the graph.
type grouped struct {
	idx    *index
	pl     *placement
	groups []group
	early  []bool // by Node.ID: the update node runs early, if every group is a stage of its own
	tables
}

// group is the nodes of one group, and the costs that groups of a stage add up to.
type group struct {
	nodes      [3][]*graph.Node // by phase; graph order in F and B, running order in U
	flops      int64            // F and B, per microbatch
	recomputed int64            // of these, in nodes that compute a value a second time
	parameters int64            // elements of the parameters owned
}

// tables are the working memory for the units of a stage. Making them for each would take
// time and memory by the size of the graph.
type tables struct {
	soon  marks       // update nodes of the stage that run early
	asked marks       // values that nodes of the stage's B read
	kept  marks       // values that B makes and W reads, in the stage
	here  *table[int] // node → its index in the unit
}

func newTables(idx *index) tables {
	values := len(idx.g.Values)
	return tables{soon: newMarks(idx.ids), asked: newMarks(values), kept: newMarks(values), here: newTable[int](idx.ids)}
}

// groupNodes sorts a graph's nodes into groups.
func groupNodes(idx *index, pl *placement) *grouped {
	g := &grouped{idx: idx, pl: pl, groups: make([]group, pl.groups), early: make([]bool, idx.ids), tables: newTables(idx)}
	for _, n := range stop.Each(idx.stop, idx.g.Nodes) {
		if n.Phase == graph.Update {
			continue
		}
		x := &g.groups[pl.node[n.ID]]
		x.nodes[n.Phase] = append(x.nodes[n.Phase], n)
		cost := n.Cost()
		x.flops += cost.Flops
		if n.Recomputed && cost.Bytes > 0 { // one that touches no bytes gives the same ones another shape
			x.recomputed += cost.Flops
		}
	}
	for _, n := range stop.Each(idx.stop, idx.updates) {
		x := &g.groups[pl.node[n.ID]]
		x.nodes[graph.Update] = append(x.nodes[graph.Update], n)
	}
	for _, v := range stop.Each(idx.stop, idx.g.Vars) {
		if v.Role == graph.Parameter {
			g.groups[pl.owner[v.Name]].parameters += int64(v.Meta.Elems())
		}
	}
	return g
}

// list is the nodes of groups lo to hi-1 in these phases, in graph order or, for
// the update, in running order. The caller must not change it.
func (g *grouped) list(lo, hi int, phases ...graph.Phase) []*graph.Node {
	if hi == lo+1 && len(phases) == 1 {
		return g.groups[lo].nodes[phases[0]]
	}
	var all []*graph.Node
	for _, phase := range phases {
		for i := range hi - lo {
			at := lo + i
			if phase == graph.Backward {
				at = hi - 1 - i // mostly sorted already
			}
			all = append(all, g.groups[at].nodes[phase]...)
		}
	}
	slices.SortFunc(all, func(a, b *graph.Node) int { return g.idx.at[a.ID] - g.idx.at[b.ID] })
	return all
}
