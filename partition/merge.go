package partition

import (
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// Phases is a set of phases.
type Phases uint8

// Has reports whether p is in the set.
func (s Phases) Has(p graph.Phase) bool { return s>>p&1 != 0 }

// String is the phases' letters in running order: "FBU".
func (s Phases) String() string {
	var b strings.Builder
	for p, letter := range []string{"F", "B", "U"} {
		if s.Has(graph.Phase(p)) {
			b.WriteString(letter)
		}
	}
	return b.String()
}

// run is nodes of one stage that run as one, in order.
type run struct {
	phase  graph.Phase // when: the first of phases
	phases Phases
	nodes  []*graph.Node
}

// runs is what groups lo to hi-1, as one stage, do in one go each. What two
// runs share outlives both, so as few as possible are best: with one
// microbatch the last stage goes back as soon as it has gone forward, and an
// update runs behind its gradient where nothing stands against it. With
// several, the phases are apart.
func (x *index) runs(pl *placement, lo, hi int) []run {
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
	var rs []run
	for p, nodes := range [][]*graph.Node{forward, backward, late} {
		if len(nodes) > 0 {
			rs = append(rs, newRun(graph.Phase(p), nodes))
		}
	}
	return rs
}

func newRun(phase graph.Phase, nodes []*graph.Node) run {
	r := run{phase: phase, nodes: nodes}
	for _, n := range nodes {
		r.phases |= 1 << n.Phase
	}
	return r
}

func (x *index) merging() bool { return x.microbatches == 1 && !x.apart }

// early marks the update nodes that can run together with the backward pass of
// their stage, groups lo to hi-1 being one stage and every other group one of
// its own. Backward goes down the stages: what a node needs, and who needs what
// it overwrites, must not be on a lower one. The loss has been checked by then.
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
// node: those whose results it reads, and those that read what it overwrites.
func (x *index) behind(n *graph.Node) []*graph.Node {
	var ns []*graph.Node
	for _, v := range n.In {
		if v.Kind == graph.Computed && v.Node.Phase != graph.Update {
			ns = append(ns, v.Node)
		}
	}
	for _, out := range n.Out {
		v := x.holder[out]
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

// weave puts each update node behind the last node that it must wait for, and
// behind all of the forward pass, where a step may fail.
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
		place := start
		for _, b := range append(x.behind(n), x.before[n]...) {
			place = max(place, at[b])
		}
		at[n] = place
		behind[place] = append(behind[place], n)
	}
	woven := behind[0]
	for i, n := range nodes {
		woven = append(append(woven, n), behind[i+1]...)
	}
	return woven
}
