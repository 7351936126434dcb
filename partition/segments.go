package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// nodeList is a segment before its inputs and outputs are known.
type nodeList struct {
	run
	id, stage, device, level int
}

func (l *nodeList) name() string {
	if l.phase == graph.Update {
		return fmt.Sprintf("s%d.U%d", l.stage, l.level)
	}
	return fmt.Sprintf("s%d.%v", l.stage, l.phases)
}

// listSegments is pass 5: the nodes of each segment in running order, and the
// segments in plan order: forward up the stages, backward down, updates by
// level.
func listSegments(idx *index, pl *placement) []*nodeList {
	var lists []*nodeList
	late := map[*graph.Node]bool{}
	for s := range pl.groups {
		for _, r := range idx.runs(pl, s, s+1) {
			if r.phase != graph.Update {
				lists = append(lists, &nodeList{run: r, stage: s})
				continue
			}
			for _, n := range r.nodes {
				late[n] = true
			}
		}
	}
	lists = append(lists, listUpdates(idx, pl, late)...)
	slices.SortFunc(lists, func(a, b *nodeList) int {
		stages := cmp.Compare(a.stage, b.stage)
		if a.phase == graph.Backward {
			stages = -stages
		}
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.level, b.level), stages)
	})
	return lists
}

// listUpdates makes segments of the update nodes that run when all gradients
// are there. The level of a node counts how often the way to it changes stages.
func listUpdates(idx *index, pl *placement, late map[*graph.Node]bool) []*nodeList {
	type key struct{ stage, level int }
	byKey := map[key]*nodeList{}
	levels := map[*graph.Node]int{}
	var lists []*nodeList
	for _, n := range idx.updates {
		if !late[n] {
			continue
		}
		k := key{stage: pl.node[n.ID]}
		for _, d := range idx.before[n] {
			if !late[d] {
				continue
			}
			l := levels[d]
			if pl.node[d.ID] != k.stage {
				l++
			}
			k.level = max(k.level, l)
		}
		levels[n] = k.level
		l := byKey[k]
		if l == nil {
			l = &nodeList{run: newRun(graph.Update, []*graph.Node{n}), stage: k.stage, level: k.level}
			byKey[k] = l
			lists = append(lists, l)
			continue
		}
		l.nodes = append(l.nodes, n)
	}
	return lists
}

// orderUpdates sorts the update nodes so that each comes after those whose
// results it reads, and what makes the new value of a variable after every
// other reader of the old one: the new value is written in place.
func (x *index) orderUpdates() error {
	x.before = map[*graph.Node][]*graph.Node{}
	o := &updateOrder{idx: x, done: map[*graph.Node]bool{}, open: map[*graph.Node]bool{}}
	for _, n := range x.g.Nodes {
		if n.Phase == graph.Update {
			if err := o.visit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateOrder is a depth-first topological sort.
type updateOrder struct {
	idx  *index
	done map[*graph.Node]bool
	open map[*graph.Node]bool // on the current path
}

func (o *updateOrder) visit(n *graph.Node) error {
	if o.done[n] {
		return nil
	}
	if o.open[n] {
		return fmt.Errorf("%w: the update is circular at %v: a variable's new value is needed by what reads its old one; read the new value in both places, or the old one", ErrGraph, n)
	}
	o.open[n] = true
	before := o.before(n)
	for _, d := range before {
		if err := o.visit(d); err != nil {
			return err
		}
	}
	o.open[n] = false
	o.done[n] = true
	o.idx.before[n] = before
	o.idx.updates = append(o.idx.updates, n)
	return nil
}

// before lists the update nodes that must run before n.
func (o *updateOrder) before(n *graph.Node) []*graph.Node {
	var d []*graph.Node
	for _, v := range n.In {
		if v.Kind == graph.Computed && v.Node.Phase == graph.Update {
			d = append(d, v.Node)
		}
	}
	for _, out := range n.Out {
		v := o.idx.holder[out]
		if v == nil {
			continue
		}
		for _, r := range o.idx.readers[v] {
			if r != n && r.Phase == graph.Update {
				d = append(d, r)
			}
		}
	}
	return d
}
