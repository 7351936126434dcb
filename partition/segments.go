package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
)

// nodeList is a segment before its inputs and outputs are known.
type nodeList struct {
	unit
	piece                     string // its label
	id, stage, replica, level int
}

func (l *nodeList) name() string {
	if l.pass == schedule.Update {
		return fmt.Sprintf("s%d.U%d", l.stage, l.level) + onReplica(l.replica) + suffix(l.piece)
	}
	return fmt.Sprintf("s%d.%v", l.stage, l.passes) + suffix(l.piece)
}

// onReplica ends the name of a replica's work where others have the same work on
// other tensors; the first replica's needs none.
func onReplica(replica int) string {
	if replica == 0 {
		return ""
	}
	return fmt.Sprintf("@%d", replica)
}

// suffix sets the label of a piece off from what it is a piece of.
func suffix(piece string) string {
	if piece == "" {
		return ""
	}
	return ":" + piece
}

// makeSegments is pass 5: the segments of a grain, for so many replicas.
func makeSegments(g *grouped, at grain, replicas int) (segments []Segment, err error) {
	lists, err := listSegments(g, at)
	if err != nil {
		return nil, err
	}
	b := newBinder(g.idx, g.pl, replicas)
	for i, l := range lists {
		if err := g.idx.stop.Err(); err != nil {
			return nil, err
		}
		l.id = i
		segments = append(segments, b.bind(l))
	}
	return segments, nil
}

// listSegments lists the nodes of each segment in running order, and the
// segments in plan order: F up the stages, B and then W down, updates by level.
func listSegments(g *grouped, at grain) ([]*nodeList, error) {
	var lists []*nodeList
	late := newMarks(g.idx.ids)
	for s := range g.groups {
		if err := g.idx.stop.Err(); err != nil {
			return nil, err
		}
		for _, r := range g.units(s, s+1) {
			if r.pass != schedule.Update {
				lists = append(lists, &nodeList{unit: r, stage: s})
				continue
			}
			for _, n := range r.nodes {
				late.add(n.ID)
			}
		}
	}
	lists = append(lists, listUpdates(g.idx, g.pl, late)...)
	slices.SortFunc(lists, func(a, b *nodeList) int {
		stages := cmp.Compare(a.stage, b.stage)
		if a.pass == schedule.Backward || a.pass == schedule.Weights {
			stages = -stages
		}
		return cmp.Or(cmp.Compare(passOrder(a.pass), passOrder(b.pass)), cmp.Compare(a.level, b.level), stages, cmp.Compare(a.replica, b.replica))
	})
	return cutLists(cutter{g.idx, at}, lists), g.idx.stop.Err()
}

// cutLists cuts each list into its pieces.
func cutLists(c cutter, lists []*nodeList) (all []*nodeList) {
	for _, l := range stop.Each(c.idx.stop, lists) {
		for _, p := range c.cut(l.unit) {
			x := *l
			x.unit, x.piece = newUnit(l.pass, p.nodes), p.label
			all = append(all, &x)
		}
	}
	return all
}

// listUpdates makes segments of the update nodes that run after all gradients. The
// level of a node is the largest number of changes of stage or replica on a way to it.
func listUpdates(idx *index, pl *placement, late marks) []*nodeList {
	type key struct{ stage, replica, level int }
	byKey := map[key]*nodeList{}
	levels := make([]int, idx.ids) // by Node.ID
	var lists []*nodeList
	for _, n := range stop.Each(idx.stop, idx.updates) {
		if !late.has(n.ID) {
			continue
		}
		k := key{stage: pl.node[n.ID], replica: pl.replica(n)}
		for _, d := range idx.before[n.ID] {
			if !late.has(d.ID) {
				continue
			}
			l := levels[d.ID]
			if pl.node[d.ID] != k.stage || pl.replica(d) != k.replica {
				l++
			}
			k.level = max(k.level, l)
		}
		levels[n.ID] = k.level
		l := byKey[k]
		if l == nil {
			l = &nodeList{unit: newUnit(schedule.Update, []*graph.Node{n}), stage: k.stage, replica: k.replica, level: k.level}
			byKey[k] = l
			lists = append(lists, l)
			continue
		}
		l.nodes = append(l.nodes, n)
	}
	return lists
}
