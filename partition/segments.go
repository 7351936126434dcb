package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// nodeList is a segment before its inputs and outputs are known.
type nodeList struct {
	id, stage, device, level int
	phase                    graph.Phase
	nodes                    []*graph.Node
}

func (l *nodeList) name() string {
	switch l.phase {
	case graph.Forward:
		return fmt.Sprintf("s%d.F", l.stage)
	case graph.Backward:
		return fmt.Sprintf("s%d.B", l.stage)
	}
	return fmt.Sprintf("s%d.U%d", l.stage, l.level)
}

// listSegments is pass 5: the nodes of each segment in running order, and the
// segments in plan order: forward up the stages, backward down, updates by
// level.
func listSegments(idx *index, pl *placement) ([]*nodeList, error) {
	nodes, levels, err := orderUpdates(idx, pl)
	if err != nil {
		return nil, err
	}
	type key struct {
		phase        graph.Phase
		stage, level int
	}
	byKey := map[key]*nodeList{}
	var lists []*nodeList
	add := func(n *graph.Node, level int) {
		k := key{n.Phase, pl.node[n.ID], level}
		l := byKey[k]
		if l == nil {
			l = &nodeList{phase: k.phase, stage: k.stage, level: k.level}
			byKey[k] = l
			lists = append(lists, l)
		}
		l.nodes = append(l.nodes, n)
	}
	for _, n := range idx.g.Nodes {
		if n.Phase != graph.Update {
			add(n, 0)
		}
	}
	for _, n := range nodes {
		add(n, levels[n])
	}
	slices.SortFunc(lists, func(a, b *nodeList) int {
		stages := cmp.Compare(a.stage, b.stage)
		if a.phase == graph.Backward {
			stages = -stages
		}
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.level, b.level), stages)
	})
	return lists, nil
}

// orderUpdates sorts the update nodes so that each comes after those whose
// results it reads, and what makes the new value of a variable after every
// other reader of the old one: the new value is written in place. The level of
// a node counts how often the way to it changes stages.
func orderUpdates(idx *index, pl *placement) (order []*graph.Node, levels map[*graph.Node]int, err error) {
	o := &updateOrder{idx: idx, pl: pl, levels: map[*graph.Node]int{}, open: map[*graph.Node]bool{}}
	for _, n := range idx.g.Nodes {
		if n.Phase == graph.Update {
			if err := o.visit(n); err != nil {
				return nil, nil, err
			}
		}
	}
	return o.order, o.levels, nil
}

// updateOrder is a depth-first topological sort.
type updateOrder struct {
	idx    *index
	pl     *placement
	order  []*graph.Node
	levels map[*graph.Node]int
	open   map[*graph.Node]bool // on the current path
}

func (o *updateOrder) visit(n *graph.Node) error {
	if _, done := o.levels[n]; done {
		return nil
	}
	if o.open[n] {
		return fmt.Errorf("%w: the update is circular at %v: a variable's new value is needed by what reads its old one; read the new value in both places, or the old one", ErrGraph, n)
	}
	o.open[n] = true
	level := 0
	for _, d := range o.before(n) {
		if err := o.visit(d); err != nil {
			return err
		}
		l := o.levels[d]
		if o.pl.node[d.ID] != o.pl.node[n.ID] {
			l++
		}
		level = max(level, l)
	}
	o.open[n] = false
	o.levels[n] = level
	o.order = append(o.order, n)
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
