package segment

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Groups is a graph's nodes by group. It answers questions about neighbouring
// groups in time that grows with their own nodes, not with the graph. Whoever plans owns it, and
// asks from one goroutine: its tables serve one question at a time.
type Groups struct {
	Index     *nodes.Index
	Placement *place.Placement
	All       []Group
	early     []bool // by Node.ID: the update node runs early, if every group is a stage of its own
	tables
}

// Group is the nodes of one group, and the costs that groups of a stage add up to.
type Group struct {
	Nodes      [3][]*graph.Node // by phase; graph order in F and B, running order in U
	Flops      int64            // F and B, per microbatch
	Recomputed int64            // of these, in nodes that compute a value a second time
	Parameters int64            // elements of the parameters owned
}

// tables are the working memory for the units of a stage. Making them for each would take
// time and memory by the size of the graph.
type tables struct {
	soon  nodes.Marks       // update nodes of the stage that run early
	asked nodes.Marks       // values that nodes of the stage's B read
	Kept  nodes.Marks       // values that B makes and W reads, in the stage
	here  *nodes.Table[int] // node → its index in the unit
}

func newTables(idx *nodes.Index) tables {
	values := len(idx.Graph.Values)
	return tables{soon: nodes.NewMarks(idx.IDs), asked: nodes.NewMarks(values), Kept: nodes.NewMarks(values), here: nodes.NewTable[int](idx.IDs)}
}

// GroupNodes sorts a graph's nodes into groups.
func GroupNodes(idx *nodes.Index, pl *place.Placement) *Groups {
	g := &Groups{Index: idx, Placement: pl, All: make([]Group, pl.Groups), early: make([]bool, idx.IDs), tables: newTables(idx)}
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		if n.Phase == graph.Update {
			continue
		}
		x := &g.All[pl.Node[n.ID]]
		x.Nodes[n.Phase] = append(x.Nodes[n.Phase], n)
		cost := n.Cost()
		x.Flops += cost.Flops
		if n.Recomputed && cost.Bytes > 0 { // one that touches no bytes gives the same ones another shape
			x.Recomputed += cost.Flops
		}
	}
	for _, n := range stop.Each(idx.Stop, idx.Updates) {
		x := &g.All[pl.Node[n.ID]]
		x.Nodes[graph.Update] = append(x.Nodes[graph.Update], n)
	}
	for _, v := range stop.Each(idx.Stop, idx.Graph.Vars) {
		if v.Role == graph.Parameter {
			g.All[pl.Owner[v.Name]].Parameters += int64(v.Meta.Elems())
		}
	}
	return g
}

// list is the nodes of groups lo to hi-1 in these phases, in graph order or, for
// the update, in running order. The caller must not change it.
func (g *Groups) list(lo, hi int, phases ...graph.Phase) []*graph.Node {
	if hi == lo+1 && len(phases) == 1 {
		return g.All[lo].Nodes[phases[0]]
	}
	var all []*graph.Node
	for _, phase := range phases {
		for i := range hi - lo {
			at := lo + i
			if phase == graph.Backward {
				at = hi - 1 - i // mostly sorted already
			}
			all = append(all, g.All[at].Nodes[phase]...)
		}
	}
	slices.SortFunc(all, func(a, b *graph.Node) int { return g.Index.Position[a.ID] - g.Index.Position[b.ID] })
	return all
}
