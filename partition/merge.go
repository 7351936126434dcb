package partition

import (
	"github.com/berth-ml/berth/engine/graph"
)

// unit is the nodes of a stage that become one segment, in running order.
type unit struct {
	phase  graph.Phase // when: the first of phases
	phases Phases
	nodes  []*graph.Node
}

// units lists the units of groups lo to hi-1 as one stage. Values that two units
// share stay in memory between them, so fewer units need less. With one
// microbatch, the last stage goes backward as soon as it has gone forward, and an
// update runs right after its gradient wherever early allows it. With several
// microbatches, every phase is a unit.
func (x *index) units(pl *placement, lo, hi int) []unit {
	last := hi == pl.groups
	early := x.early(pl, lo, hi)
	var forward, backward, soon, late []*graph.Node
	for _, n := range x.g.Nodes {
		g := pl.node[n.ID]
		switch {
		case g < lo || g >= hi || n.Phase == graph.Update:
		case n.Phase == graph.Forward || last && x.merging():
			forward = append(forward, n)
		default:
			backward = append(backward, n)
		}
	}
	for _, n := range x.updates {
		switch g := pl.node[n.ID]; {
		case g < lo || g >= hi:
		case early[n]:
			soon = append(soon, n)
		default:
			late = append(late, n)
		}
	}
	if last {
		forward = x.weave(forward, soon)
	} else {
		backward = x.weave(backward, soon)
	}
	var rs []unit
	for p, nodes := range [][]*graph.Node{forward, backward, late} {
		if len(nodes) > 0 {
			rs = append(rs, newUnit(graph.Phase(p), nodes))
		}
	}
	return rs
}

func newUnit(phase graph.Phase, nodes []*graph.Node) unit {
	r := unit{phase: phase, nodes: nodes}
	for _, n := range nodes {
		r.phases |= 1 << n.Phase
	}
	return r
}

func (x *index) merging() bool { return x.microbatches == 1 && !x.apart }

// early marks the update nodes that can run together with the backward pass of
// their stage. Groups lo to hi-1 are one stage; every other group is a stage of
// its own. Backward goes down the stages. So a node can run early if the nodes
// that it must run after (see behind) are on its own stage or a higher one. The
// loss has been checked by then.
func (x *index) early(pl *placement, lo, hi int) map[*graph.Node]bool {
	if !x.merging() {
		return nil
	}
	stage := func(n *graph.Node) int {
		if g := pl.node[n.ID]; g < lo || g >= hi {
			return g
		}
		return lo
	}
	top := pl.groups - 1
	if hi == pl.groups {
		top = lo
	}
	goesBack := map[int]bool{top: true}
	for _, n := range x.g.Nodes {
		if n.Phase == graph.Backward {
			goesBack[stage(n)] = true
		}
	}
	early := map[*graph.Node]bool{}
	for _, n := range x.updates {
		s := stage(n)
		ok := goesBack[s]
		for _, b := range x.behind(n) {
			ok = ok && (b.Phase == graph.Forward || stage(b) >= s)
		}
		for _, b := range x.before[n] {
			ok = ok && early[b] && stage(b) >= s
		}
		early[n] = ok
	}
	return early
}

// behind lists the forward and backward nodes that must run before an update
// node: it reads their results, or overwrites a variable that they read.
func (x *index) behind(n *graph.Node) []*graph.Node {
	var ns []*graph.Node
	for _, v := range n.In {
		if v.Kind == graph.Computed && v.Node.Phase != graph.Update {
			ns = append(ns, v.Node)
		}
	}
	for _, out := range n.Out {
		v := x.variable[out]
		if v == nil {
			continue
		}
		for _, r := range x.readers[v] {
			if r.Phase != graph.Update {
				ns = append(ns, r)
			}
		}
	}
	return ns
}

// weave inserts the update nodes into a list of nodes. Each comes after the last
// node that it must wait for, and after the forward pass, in which a step may
// fail. Slot i is the gap after nodes[i-1]. at has the slot after each node, and
// behind[i] the updates that go into slot i.
func (x *index) weave(nodes, updates []*graph.Node) []*graph.Node {
	if len(updates) == 0 {
		return nodes
	}
	at, start := map[*graph.Node]int{}, 0
	for i, n := range nodes {
		at[n] = i + 1
		if n.Phase == graph.Forward {
			start = i + 1
		}
	}
	behind := make([][]*graph.Node, len(nodes)+1)
	for _, n := range updates {
		slot := start
		for _, b := range append(x.behind(n), x.before[n]...) {
			slot = max(slot, at[b])
		}
		at[n] = slot
		behind[slot] = append(behind[slot], n)
	}
	woven := behind[0]
	for i, n := range nodes {
		woven = append(append(woven, n), behind[i+1]...)
	}
	return woven
}
