package fuse

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// Groups have ranks, which go up along every way from one group to another, so
// that a search between two groups looks at what lies between their ranks only.
// Where merging groups makes some others rank too low or too high they are moved
// into the room that is left for this around each rank.
const rankRoom = 1 << 32

// rank gives the groups their ranks, the one that begins first in the graph first.
func (c *cutter) rank() {
	missing := map[*group]int{}
	all := c.groups()
	for _, g := range all {
		for r := range g.next {
			missing[r]++
		}
	}
	var free groups
	for _, g := range all {
		if missing[g] == 0 {
			free = append(free, g)
		}
	}
	heap.Init(&free)
	ranked := 0
	for ; len(free) > 0; ranked++ {
		g := heap.Pop(&free).(*group)
		g.rank = int64(ranked)*rankRoom + rankRoom/2
		for r := range g.next {
			if missing[r]--; missing[r] == 0 {
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

// next goes over the groups that must run after g, some of them repeatedly.
func (g *group) next(yield func(*group) bool) {
	for _, it := range g.items {
		for _, r := range it.after {
			if r.group != g && !yield(r.group) {
				return
			}
		}
	}
}

// previous goes over the groups that must run before g, some of them repeatedly.
func (g *group) previous(yield func(*group) bool) {
	for _, it := range g.items {
		for _, r := range it.before {
			if r.group != g && !yield(r.group) {
				return
			}
		}
	}
}

// number walks over what comes after what, depth first. The walk takes the
// earliest way first, and so goes along chains of layers to their ends.
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
	for _, it := range c.items {
		enter(it)
		for len(way) > 0 {
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

// sweep goes over what comes after a group, or before it.
type sweep struct {
	c     *cutter
	back  bool
	mark  int   // of groups that it has met
	limit int64 // the last rank that it goes to
	todo  groups
	met   groups
}

// newSweep begins a sweep at g.
func (c *cutter) newSweep(g *group, back bool, limit int64) *sweep {
	c.search++
	g.mark = c.search
	return &sweep{c: c, back: back, mark: c.search, limit: limit, todo: groups{g}}
}

// step visits the neighbours of a group that was met. It stops at one that meet
// says yes to.
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

// linked tells whether there is a way from one group to another by a third. It
// looks from both ends in turn, and so for about as long as the end takes that
// has less around it.
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

// detour finds a node between two groups that is in neither: fused, they would
// have to run both before and after it.
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

// reaches tells whether a or b comes after g. It visits each group once in a
// search.
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

// precedes tells whether the walk that numbered items came from g to b. Other
// ways there may be all the same.
func (g *group) precedes(b *group) bool {
	for _, x := range g.items {
		for _, y := range b.items {
			if x.pre < y.pre && y.pre < x.end {
				return true
			}
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

// settle gives a group that was merged of two their higher rank, and makes what
// comes after it rank above, or their lower rank, and makes what comes before rank
// below: whichever takes less. What was moved next to these ranks earlier is moved
// along.
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
