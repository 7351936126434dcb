package segment

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Unit is the nodes of a stage that become one segment, in running order.
type Unit struct {
	pass   schedule.Kind // when: the first of passes
	passes Passes
	Nodes  []*graph.Node
}

// NewGroups groups a graph's nodes, and finds the update nodes that run early if
// every group is a stage of its own: units of neighbouring groups need to know.
func NewGroups(idx *nodes.Index, pl *place.Placement) *Groups {
	g := GroupNodes(idx, pl)
	for s := len(g.All) - 1; s >= 0; s-- {
		soon, _ := g.updates(s, s+1)
		for _, n := range soon {
			g.early[n.ID] = true
		}
	}
	return g
}

// Units lists the units of groups lo to hi-1 as one stage. Values that two units
// share stay in memory between them, so fewer units need less. With one
// microbatch, the last stage goes backward as soon as it has gone forward, and an
// update runs right after its gradient wherever early allows it. With several
// microbatches, every phase is a unit.
func (g *Groups) Units(lo, hi int) []Unit {
	var forward, backward []*graph.Node
	last := hi == len(g.All)
	if last && g.Index.Merging() {
		forward = g.list(lo, hi, graph.Forward, graph.Backward)
	} else {
		forward, backward = g.list(lo, hi, graph.Forward), g.list(lo, hi, graph.Backward)
	}
	soon, late := g.updates(lo, hi)
	if last {
		forward = g.weave(forward, soon)
	} else {
		backward = g.weave(backward, soon)
	}
	var rs []Unit
	backward, weights := g.SplitBackward(lo, hi, backward)
	for _, u := range []Unit{{pass: schedule.Forward, Nodes: forward}, {pass: schedule.Backward, Nodes: backward}, {pass: schedule.Weights, Nodes: weights}, {pass: schedule.Update, Nodes: late}} {
		if len(u.Nodes) > 0 {
			rs = append(rs, newUnit(u.pass, u.Nodes))
		}
	}
	return rs
}

func newUnit(pass schedule.Kind, nodes []*graph.Node) Unit {
	r := Unit{pass: pass, Nodes: nodes}
	for _, n := range nodes {
		r.passes |= 1 << passOrder(PassOf(n, pass))
	}
	return r
}

// updates lists the update nodes of groups lo to hi-1 as one stage: those that can
// run together with its backward pass, and the others. Every other group is a
// stage of its own.
//
// Backward goes down the stages. So a node can run early if the nodes that it
// must run after are on its own stage or a higher one. The loss has been checked
// by then. Whether a node of a higher stage runs early does not depend on the
// stages below it.
func (g *Groups) updates(lo, hi int) (soon, late []*graph.Node) {
	all := g.list(lo, hi, graph.Update)
	if !g.Index.Merging() {
		return nil, all
	}
	goesBack := hi == len(g.All)
	for _, x := range g.All[lo:hi] {
		goesBack = goesBack || len(x.Nodes[graph.Backward]) > 0
	}
	g.soon.Clear()
	for _, n := range stop.Each(g.Index.Stop, all) {
		if goesBack && g.canRunEarly(n, lo, hi) {
			g.soon.Add(n.ID)
			soon = append(soon, n)
		} else {
			late = append(late, n)
		}
	}
	return soon, late
}

// canRunEarly is about an update node of the stage of groups lo to hi-1, once it
// is known of the stage's update nodes before it and of the stages above.
func (g *Groups) canRunEarly(n *graph.Node, lo, hi int) bool {
	for _, b := range g.Index.Behind[n.ID] {
		if b.Phase != graph.Forward && g.Placement.Node[b.ID] < lo {
			return false
		}
	}
	for _, b := range g.Index.Before[n.ID] {
		switch at := g.Placement.Node[b.ID]; {
		case at < lo, at < hi && !g.soon.Has(b.ID), at >= hi && !g.early[b.ID]:
			return false
		}
	}
	return true
}

// weave inserts the update nodes into a list of nodes. Each comes after the last
// node that it must wait for, and after the forward pass, in which a step may
// fail. Slot i is the gap after nodes[i-1]. at has the slot after each node, and
// behind[i] the updates that go into slot i.
func (g *Groups) weave(nodes, updates []*graph.Node) []*graph.Node {
	if len(updates) == 0 {
		return nodes
	}
	at, start := g.here, 0
	at.Clear()
	for i, n := range nodes {
		at.Set(n.ID, i+1)
		if n.Phase == graph.Forward {
			start = i + 1
		}
	}
	behind := make([][]*graph.Node, len(nodes)+1)
	for _, n := range stop.Each(g.Index.Stop, updates) {
		slot := start
		for _, before := range [][]*graph.Node{g.Index.Behind[n.ID], g.Index.Before[n.ID]} {
			for _, b := range before {
				after, _ := at.Get(b.ID)
				slot = max(slot, after)
			}
		}
		at.Set(n.ID, slot)
		behind[slot] = append(behind[slot], n)
	}
	woven := slices.Grow(behind[0], len(nodes)+len(updates))
	for i, n := range nodes {
		woven = append(append(woven, n), behind[i+1]...)
	}
	return woven
}

// SplitBackward cuts the backward nodes of groups lo to hi-1, as one stage, into those
// of its B and of its W. Other stages wait for the results of B, which takes all nodes
// that lead there. W takes the rest: only sums over microbatches, the update and
// callers ask for it. What both need is made in B and kept until W, recomputed values
// too. On the first stage all is W: no stage waits for it. Without W in the schedule,
// all is B.
func (g *Groups) SplitBackward(lo, hi int, nodes []*graph.Node) (backward, weights []*graph.Node) {
	if !g.Index.Splits {
		return nodes, nil
	}
	g.asked.Clear()
	g.Kept.Clear()
	for i := range stop.Each(g.Index.Stop, nodes) {
		n := nodes[len(nodes)-1-i]
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return g.asked.Has(v.ID) || g.awaited(v, lo, hi) }) {
			backward = append(backward, n)
			for _, v := range n.In {
				g.asked.Add(v.ID)
			}
			continue
		}
		weights = append(weights, n)
		for _, v := range n.In {
			g.Kept.Add(v.ID)
		}
	}
	slices.Reverse(backward)
	slices.Reverse(weights)
	return backward, weights
}

// awaited reports whether the backward pass of a group other than lo to hi-1 reads v.
func (g *Groups) awaited(v *graph.Value, lo, hi int) bool {
	return slices.ContainsFunc(g.Index.Readers[v.ID], func(r *graph.Node) bool {
		at := g.Placement.Node[r.ID]
		return r.Phase == graph.Backward && (at < lo || at >= hi)
	})
}
