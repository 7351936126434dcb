package paging

import "math"

// flow is a min-cost flow on few nodes and many arcs, by the network simplex
// method. Its basis is a spanning tree that stays feasible when costs change,
// so that a problem much like the last one takes few pivots.
type flow struct {
	arcs []arc
	tree []node
	at   int   // the arc at which entering goes on
	way  []int // of priceNode, for reuse
}

// arc goes from one node to another. Its flow is 0 to most.
type arc struct {
	from, to int
	most     int64
	cost     float64
	flow     int64
	basic    bool // in the tree
}

// node is a node's place in the tree.
type node struct {
	parent, arc, depth int     // parent and arc are -1 at the root
	potential          float64 // cost of the tree's way from the root
}

// tolerance is the reduced cost from which an arc can improve the flow. Costs are
// around 1.
const tolerance = 1e-9

// newFlow starts from a feasible flow and a tree: per node the arc to its
// parent, -1 for the root. Arcs outside have a flow of 0 or most. In the tree, one
// more unit can go from every node to the root.
func newFlow(arcs []arc, up []int) *flow {
	f := &flow{arcs: arcs, tree: make([]node, len(up))}
	for v, a := range up {
		f.tree[v] = node{parent: -1, arc: a}
		if a >= 0 {
			arcs[a].basic = true
			f.tree[v].parent = arcs[a].from + arcs[a].to - v
		}
	}
	return f
}

// solve makes the flow one of least cost.
func (f *flow) solve() {
	f.price()
	for {
		a := f.entering()
		if a < 0 {
			return
		}
		f.pivot(a)
	}
}

// price computes depths and potentials.
func (f *flow) price() {
	for v := range f.tree {
		f.tree[v].depth = -1
	}
	for v := range f.tree {
		f.priceNode(v)
	}
}

// priceNode prices a node after its parents: it walks up to one with a price, and
// back down.
func (f *flow) priceNode(v int) {
	way := f.way[:0]
	for v >= 0 && f.tree[v].depth < 0 {
		way = append(way, v)
		v = f.tree[v].parent
	}
	for i := len(way) - 1; i >= 0; i-- {
		f.place(way[i])
	}
	f.way = way
}

// place computes a node's depth and potential from its parent's.
func (f *flow) place(v int) {
	n := &f.tree[v]
	if n.parent < 0 {
		n.depth, n.potential = 0, 0
		return
	}
	p, a := &f.tree[n.parent], &f.arcs[n.arc]
	n.depth = p.depth + 1
	if a.to == v {
		n.potential = p.potential + a.cost
	} else {
		n.potential = p.potential - a.cost
	}
}

// reduced is what one unit more on an arc costs, with the way back through the
// tree.
func (f *flow) reduced(a *arc) float64 {
	return a.cost + f.tree[a.from].potential - f.tree[a.to].potential
}

// entering finds an arc that can lower the cost: the best of a block of arcs, -1
// if none of all is.
func (f *flow) entering() int {
	block := max(64, int(math.Sqrt(float64(len(f.arcs)))))
	best, most := -1, tolerance
	for n := range f.arcs {
		i := (f.at + n) % len(f.arcs)
		if a := &f.arcs[i]; !a.basic {
			gain := -f.reduced(a)
			if a.flow > 0 {
				gain = -gain
			}
			if gain > most {
				best, most = i, gain
			}
		}
		if n%block == block-1 && best >= 0 {
			f.at = i + 1
			break
		}
	}
	return best
}

// pivot sends as much as it can around the cycle of an entering arc and the tree,
// and puts the arc in the place of the one that blocks.
func (f *flow) pivot(entering int) {
	e := &f.arcs[entering]
	tail, head, up := e.from, e.to, e.flow == 0
	if !up {
		tail, head = head, tail
	}
	apex := f.apex(tail, head)
	// The cycle goes from the apex down to tail, over the entering arc to head,
	// and back up. Of the arcs that block first, the last one on that way leaves:
	// then the tree stays one in which a unit can go from every node to the root.
	amount, leaving, below := e.most, -1, false
	for v := tail; v != apex; v = f.tree[v].parent {
		if r := f.room(v, false); r < amount {
			amount, leaving, below = r, v, true
		}
	}
	for v := head; v != apex; v = f.tree[v].parent {
		if r := f.room(v, true); r <= amount {
			amount, leaving, below = r, v, false
		}
	}
	for v := tail; v != apex; v = f.tree[v].parent {
		f.send(v, false, amount)
	}
	for v := head; v != apex; v = f.tree[v].parent {
		f.send(v, true, amount)
	}
	if up {
		e.flow += amount
	} else {
		e.flow -= amount
	}
	if leaving < 0 {
		return // it goes from one bound to the other
	}
	if below {
		f.replace(leaving, tail, entering)
	} else {
		f.replace(leaving, head, entering)
	}
}

// apex is the lowest common node of the ways to the root.
func (f *flow) apex(u, v int) int {
	for u != v {
		if f.tree[u].depth >= f.tree[v].depth {
			u = f.tree[u].parent
		} else {
			v = f.tree[v].parent
		}
	}
	return u
}

// room is what can be sent more over the arc between v and its parent, up or
// down.
func (f *flow) room(v int, up bool) int64 {
	a := &f.arcs[f.tree[v].arc]
	if (a.from == v) == up {
		return a.most - a.flow
	}
	return a.flow
}

// send sends an amount over the arc between v and its parent, up or down.
func (f *flow) send(v int, up bool, amount int64) {
	a := &f.arcs[f.tree[v].arc]
	if (a.from == v) == up {
		a.flow += amount
	} else {
		a.flow -= amount
	}
}

// replace takes the arc above a node out of the tree, and hangs the part below on
// the entering arc, at one of its ends. The parents between that end and the node
// turn around.
func (f *flow) replace(leaving, end, entering int) {
	f.arcs[f.tree[leaving].arc].basic = false
	f.arcs[entering].basic = true
	v, parent, a := end, f.arcs[entering].from+f.arcs[entering].to-end, entering
	for {
		n := &f.tree[v]
		next, nextArc := n.parent, n.arc
		n.parent, n.arc = parent, a
		if v == leaving {
			break
		}
		v, parent, a = next, v, nextArc
	}
	f.price()
}
