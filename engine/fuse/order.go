package fuse

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// rankRoom is the room around each rank. Ranks go up along every way from one
// group to another, so a search between two groups looks only at groups ranked
// between them. When a merge makes other groups rank too low or too high, they
// move into this room.
const rankRoom = 1 << 32

// rank gives the groups their ranks. Among those that are free, the group that
// begins first in the graph goes first.
func (c *cutter) rank() {
	all := c.groups()
	for _, g := range all {
		g.missing = 0
	}
	for _, g := range all {
		for r := range g.next {
			r.missing++
		}
	}
	var free groups
	for _, g := range all {
		if g.missing == 0 {
			free = append(free, g)
		}
	}
	heap.Init(&free)
	ranked := 0
	for ; len(free) > 0 && !c.stop.Done(); ranked++ {
		g := heap.Pop(&free).(*group)
		g.rank = int64(ranked)*rankRoom + rankRoom/2
		for r := range g.next {
			if r.missing--; r.missing == 0 {
				heap.Push(&free, r)
			}
		}
	}
	if c.cyclic = ranked < len(all); c.cyclic {
		for _, g := range all {
			g.rank = 0
		}
	}
}

// groups lists the groups in the order in which they begin.
func (c *cutter) groups() groups {
	var all groups
	for _, it := range c.items {
		if it.group.items[0] == it {
			all = append(all, it.group)
		}
	}
	return all
}

// number numbers the items by a depth-first walk along after. The walk takes the
// earliest way first, so it goes along chains of layers to their ends.
func (c *cutter) number() {
	type visit struct {
		it   *item
		next int // in it.after
	}
	var way []visit
	count := 0
	enter := func(it *item) {
		if it.pre == 0 {
			count++
			it.pre = count
			way = append(way, visit{it, 0})
		}
	}
	for _, it := range stop.Each(c.stop, c.items) {
		enter(it)
		for len(way) > 0 && !c.stop.Done() {
			v := &way[len(way)-1]
			if v.next == len(v.it.after) {
				v.it.end = count + 1
				way = way[:len(way)-1]
				continue
			}
			v.next++
			enter(v.it.after[v.next-1])
		}
	}
}

// sweep goes over the groups that come after a group, or before it.
type sweep struct {
	c     *cutter
	back  bool   // it goes over those before
	mark  int    // on groups that it has met
	limit int64  // the last rank that it goes to
	todo  groups // met, and not yet left
	met   groups
}

// newSweep begins a sweep at g.
func (c *cutter) newSweep(g *group, back bool, limit int64) *sweep {
	c.search++
	g.mark = c.search
	return &sweep{c: c, back: back, mark: c.search, limit: limit, todo: groups{g}}
}

// step visits the neighbours of a group that was met. It stops, and returns true,
// at the first neighbour for which meet does.
func (s *sweep) step(meet func(from, to *group) bool) bool {
	from := s.todo[len(s.todo)-1]
	s.todo = s.todo[:len(s.todo)-1]
	neighbours := from.next
	if s.back {
		neighbours = from.previous
	}
	for to := range neighbours {
		if to.mark == s.mark {
			continue
		}
		if meet(from, to) {
			return true
		}
		if !s.back && to.rank <= s.limit || s.back && to.rank >= s.limit {
			to.mark = s.mark
			s.c.looks++
			s.todo, s.met = append(s.todo, to), append(s.met, to)
		}
	}
	return false
}

// linked tells whether a way leads from one group to another by a third. It looks
// from both ends in turn, so it takes about as long as the end with fewer groups
// around it.
func (c *cutter) linked(a, b *group) bool {
	if a.rank > b.rank {
		a, b = b, a
	}
	up, down := c.newSweep(a, false, b.rank-1), c.newSweep(b, true, a.rank+1)
	for len(up.todo) > 0 && len(down.todo) > 0 {
		if up.step(func(from, to *group) bool {
			return to.mark == down.mark && (from != a || to != b) || to != b && to.precedes(b)
		}) || down.step(func(from, to *group) bool {
			return to.mark == up.mark && (from != b || to != a) || to != a && a.precedes(to)
		}) {
			return true
		}
	}
	return false
}

// detour finds a node that is in neither group and lies on a way from one to the
// other; nil if there is none. The groups cannot be fused if there is one: they
// would have to run both before and after it.
func (c *cutter) detour(a, b *group) *graph.Node {
	if !c.cyclic && !c.linked(a, b) {
		return nil
	}
	c.search++
	for _, g := range []*group{a, b} {
		for _, it := range g.items {
			for _, r := range it.after {
				if r.group != a && r.group != b && c.reaches(r.group, a, b) {
					return r.node
				}
			}
		}
	}
	return nil
}

// reaches tells whether a way leads from g to a or b. A search visits each group
// once.
func (c *cutter) reaches(g, a, b *group) bool {
	if g == a || g == b {
		return true
	}
	if g.mark == c.search || g.rank > max(a.rank, b.rank) {
		return false
	}
	g.mark = c.search
	c.looks++
	if !c.cyclic && (g.precedes(a) || g.precedes(b)) {
		return true
	}
	for r := range g.next {
		if c.reaches(r, a, b) {
			return true
		}
	}
	return false
}

// merge makes b part of a.
func (c *cutter) merge(a, b *group) {
	a.frame, _ = a.frame.join(b.frame)
	a.items = append(a.items, b.items...)
	slices.SortFunc(a.items, func(x, y *item) int { return x.at - y.at })
	if a.head == nil {
		a.head = b.head
	}
	a.first = min(a.first, b.first)
	for _, it := range b.items {
		it.group = a
	}
	if !c.cyclic {
		c.settle(a, min(a.rank, b.rank), max(a.rank, b.rank))
	}
}

// settle ranks a group merged of two. It takes the higher of their ranks and moves
// the groups that come after above it, or it takes the lower rank and moves the
// groups that come before below it: whichever moves fewer. Groups that earlier
// merges moved next to these ranks move along.
func (c *cutter) settle(g *group, low, high int64) {
	up, down := c.newSweep(g, false, high|(rankRoom-1)), c.newSweep(g, true, low&^(rankRoom-1))
	none := func(_, _ *group) bool { return false }
	for len(up.todo) > 0 && len(down.todo) > 0 {
		up.step(none)
		down.step(none)
	}
	s, sign := up, int64(1)
	g.rank = high
	if len(up.todo) > 0 {
		s, sign = down, -1
		g.rank = low
	}
	slices.SortFunc(s.met, func(x, y *group) int { return cmp.Compare(sign*x.rank, sign*y.rank) })
	last := sign * g.rank
	for _, r := range s.met {
		last = max(last+1, sign*r.rank)
		r.rank = sign * last
	}
	if last > sign*s.limit {
		c.rank()
	}
}
