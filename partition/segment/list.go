package segment

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// nodeList is a segment before its inputs and outputs are known. Lists are cut and sorted first,
// since the ID of a segment is its place among all.
type nodeList struct {
	Unit
	piece                     string // its label
	id, stage, replica, level int
}

func (l *nodeList) name() string {
	if l.pass == schedule.Update {
		return fmt.Sprintf("s%d.U%d", l.stage, l.level) + OnReplica(l.replica) + Suffix(l.piece)
	}
	return fmt.Sprintf("s%d.%v", l.stage, l.passes) + Suffix(l.piece)
}

// OnReplica ends the name of a replica's work where others have the same work on
// other tensors; the first replica's needs none.
func OnReplica(replica int) string {
	if replica == 0 {
		return ""
	}
	return fmt.Sprintf("@%d", replica)
}

// Suffix sets the label of a piece off from what it is a piece of.
func Suffix(piece string) string {
	if piece == "" {
		return ""
	}
	return ":" + piece
}

// Make is the pass: the segments of a grain, for so many replicas.
func Make(g *Groups, at Grain, replicas int) (segments []Segment, err error) {
	lists, err := listSegments(g, at)
	if err != nil {
		return nil, err
	}
	b := newBinder(g.Index, g.Placement, replicas)
	for i, l := range lists {
		if err := g.Index.Stop.Err(); err != nil {
			return nil, err
		}
		l.id = i
		segments = append(segments, b.bind(l))
	}
	return segments, findNeeded(g.Index, segments)
}

// listSegments lists the nodes of each segment in running order, and the
// segments in plan order: F up the stages, B and then W down, updates by level.
func listSegments(g *Groups, at Grain) ([]*nodeList, error) {
	var lists []*nodeList
	late := nodes.NewMarks(g.Index.IDs)
	for s := range g.All {
		if err := g.Index.Stop.Err(); err != nil {
			return nil, err
		}
		for _, r := range g.Units(s, s+1) {
			if r.pass != schedule.Update {
				lists = append(lists, &nodeList{Unit: r, stage: s})
				continue
			}
			for _, n := range r.Nodes {
				late.Add(n.ID)
			}
		}
	}
	lists = append(lists, listUpdates(g.Index, g.Placement, late)...)
	slices.SortFunc(lists, func(a, b *nodeList) int {
		stages := cmp.Compare(a.stage, b.stage)
		if a.pass == schedule.Backward || a.pass == schedule.Weights {
			stages = -stages
		}
		return cmp.Or(cmp.Compare(passOrder(a.pass), passOrder(b.pass)), cmp.Compare(a.level, b.level), stages, cmp.Compare(a.replica, b.replica))
	})
	return cutLists(cutter{g.Index, at}, lists), g.Index.Stop.Err()
}

// cutLists cuts each list into its pieces.
func cutLists(c cutter, lists []*nodeList) (all []*nodeList) {
	for _, l := range stop.Each(c.idx.Stop, lists) {
		for _, p := range c.cut(l.Unit) {
			x := *l
			x.Unit, x.piece = newUnit(l.pass, p.nodes), p.label
			all = append(all, &x)
		}
	}
	return all
}

// listUpdates makes segments of the update nodes that run after all gradients. The
// level of a node is the largest number of changes of stage or replica on a way to it.
func listUpdates(idx *nodes.Index, pl *place.Placement, late nodes.Marks) []*nodeList {
	type key struct{ stage, replica, level int }
	byKey := map[key]*nodeList{}
	levels := make([]int, idx.IDs) // by Node.ID
	var lists []*nodeList
	for _, n := range stop.Each(idx.Stop, idx.Updates) {
		if !late.Has(n.ID) {
			continue
		}
		k := key{stage: pl.Node[n.ID], replica: pl.Replica(n)}
		for _, d := range idx.Before[n.ID] {
			if !late.Has(d.ID) {
				continue
			}
			l := levels[d.ID]
			if pl.Node[d.ID] != k.stage || pl.Replica(d) != k.replica {
				l++
			}
			k.level = max(k.level, l)
		}
		levels[n.ID] = k.level
		l := byKey[k]
		if l == nil {
			l = &nodeList{Unit: newUnit(schedule.Update, []*graph.Node{n}), stage: k.stage, replica: k.replica, level: k.level}
			byKey[k] = l
			lists = append(lists, l)
			continue
		}
		l.Nodes = append(l.Nodes, n)
	}
	return lists
}

// piece is neighbouring nodes of a unit that become one segment.
type piece struct {
	label string // unique in the unit; "" for a whole unit
	nodes []*graph.Node
}

// cutter cuts units into pieces of a grain.
type cutter struct {
	idx   *nodes.Index
	grain Grain
}

// cut cuts the nodes of a unit where their keys change. A node without a key goes
// with the nodes before it, or else with those behind.
func (c cutter) cut(u Unit) []piece {
	if c.grain == WholePhases {
		return []piece{{nodes: u.Nodes}}
	}
	var pieces []piece
	key, begin := "", 0
	for i, n := range u.Nodes {
		k := c.key(n, u.pass == schedule.Update)
		apart := c.idx.JoinsApart && u.pass == schedule.Update && i > 0 && joins(n) != joins(u.Nodes[i-1])
		if !apart && (k == "" || k == key) {
			continue
		}
		if key != "" || apart {
			pieces = append(pieces, piece{key, u.Nodes[begin:i]})
			begin = i
		}
		key = k
	}
	pieces = append(pieces, piece{key, u.Nodes[begin:]})
	if len(pieces) == 1 {
		pieces[0].label = ""
	} else {
		number(pieces)
	}
	return pieces
}

// number makes labels unique: the second piece "b0" is "b0.2".
func number(pieces []piece) {
	seen := map[string]int{}
	for i := range pieces {
		p := &pieces[i]
		if p.label == "" {
			p.label = "rest"
		}
		seen[p.label]++
		if n := seen[p.label]; n > 1 {
			p.label = fmt.Sprintf("%s.%d", p.label, n)
		}
	}
}

// key tells nodes of different pieces apart; "" fits any piece.
func (c cutter) key(n *graph.Node, update bool) string {
	if update || n.Phase == graph.Update && (c.grain == ByNode || c.idx.Ranged) {
		return c.tensor(n)
	}
	if n.Phase == graph.Update {
		return "" // with its gradient
	}
	l := n.Layer
	if l == nil && n.Of != nil {
		l = n.Of.Layer
	}
	switch {
	case c.grain == ByNode && len(n.Out) > 0:
		return n.Out[0].Name
	case c.grain == ByLayer && l != nil:
		return part(n) + l.Name
	}
	return part(n) + nodes.BlockOf(l)
}

// part begins the key of a node that computes a part of another one, as it begins the names of its results.
func part(n *graph.Node) string {
	if n.Part == nil {
		return ""
	}
	return n.Part.Label + "/"
}

// tensor names the variable that a node of the update assigns, or else the first
// tensor that it reads; "" if it has to do with single numbers only.
func (c cutter) tensor(n *graph.Node) string {
	for _, v := range n.Out {
		h := c.idx.Variable[v.ID]
		if h == nil || h.Kind != graph.Variable || nodes.Scalar(h) {
			continue
		}
		if op, ok := n.Op.(ops.Ranged); ok {
			if op.Apart { // the weight is an input alone
				h = n.In[0]
			}
			return nodes.RangeName(h.Name, op.From, op.Count)
		}
		return h.Name
	}
	for _, v := range n.In {
		if !nodes.Scalar(v) {
			return v.Name
		}
	}
	return ""
}
