package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// nodeList is a segment before its inputs and outputs are known.
type nodeList struct {
	unit
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
func listSegments(idx *index, pl *placement, stop func() error) ([]*nodeList, error) {
	var lists []*nodeList
	late := map[*graph.Node]bool{}
	for s := range pl.groups {
		if err := stop(); err != nil {
			return nil, err
		}
		for _, r := range idx.units(pl, s, s+1) {
			if r.phase != graph.Update {
				lists = append(lists, &nodeList{unit: r, stage: s})
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
	return lists, nil
}

// listUpdates makes segments of the update nodes that run after all gradients. The
// level of a node is the largest number of changes of stage on a way to it.
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
			l = &nodeList{unit: newUnit(graph.Update, []*graph.Node{n}), stage: k.stage, level: k.level}
			byKey[k] = l
			lists = append(lists, l)
			continue
		}
		l.nodes = append(l.nodes, n)
	}
	return lists
}
