package segment

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nodes"
)

// piece is neighbouring nodes of a unit that become one segment.
type piece struct {
	label string // unique in the unit; "" for a whole unit
	nodes []*graph.Node
}

// cutter cuts units into pieces.
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
		if k == "" || k == key {
			continue
		}
		if key != "" {
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
		return l.Name
	}
	return nodes.BlockOf(l)
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
