package planner

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// shelf is the storages that have an offset, by offset, in a tree. In a deep
// model thousands of storages are live at once, and they are mostly the same
// for one search as for the next. Each node of the tree remembers a summary of
// its live storages, so most searches pass most nodes with one look.
type shelf struct {
	root  *node // nil without storages
	looks int   // at nodes and storages, by all searches
}

// mostKids is the most storages of a leaf, and the most nodes in another node.
const mostKids = 16

// node is neighbours on the shelf: storages in a leaf, nodes elsewhere.
type node struct {
	all  []*Storage // nil in a node that is no leaf
	kids []*node
	low  int64 // offset of the first storage
	// seen has summaries for lives of several lengths. Values that live for a step
	// alternate with values that live until the backward pass.
	seen [8]summary
}

// summary describes the storages of a node that are live together with one
// life. It holds for every life that begins from minFirst to maxFirst and ends
// from minLast to maxLast.
type summary struct {
	valid              bool
	minFirst, maxFirst int   // steps
	minLast, maxLast   int   // steps
	off, end           int64 // bytes: the range of the live storages; off is -1 if there are none
	gap                int64 // bytes: no gap between them is wider

	need int64 // bytes: the search that best and size are the result of; 0 if there was none
	best int64 // offset of the smallest gap of at least need bytes; -1 if there is none
	size int64 // bytes of that gap
}

// holds reports whether the summary is of the storages that are live together
// with s.
func (m *summary) holds(s *Storage) bool {
	return m.valid && s.first >= m.minFirst && s.first <= m.maxFirst && s.last >= m.minLast && s.last <= m.maxLast
}

// add puts s on the shelf.
func (h *shelf) add(s *Storage) {
	if h.root == nil {
		h.root = &node{low: s.Off}
	}
	if right := h.root.add(s); right != nil {
		h.root = &node{kids: []*node{h.root, right}, low: h.root.low}
	}
}

// add puts s into the node. A node that becomes too large keeps its first half,
// and returns a node of the rest.
func (n *node) add(s *Storage) (right *node) {
	n.low = min(n.low, s.Off)
	n.seen = [8]summary{}
	if n.kids == nil {
		at, _ := slices.BinarySearchFunc(n.all, s, func(a, b *Storage) int { return cmp.Compare(a.Off, b.Off) })
		n.all = slices.Insert(n.all, at, s)
		if half := len(n.all) / 2; len(n.all) > mostKids {
			right = &node{all: slices.Clone(n.all[half:]), low: n.all[half].Off}
			n.all = n.all[:half]
		}
		return right
	}
	at := len(n.kids) - 1
	for at > 0 && n.kids[at].low > s.Off {
		at--
	}
	if more := n.kids[at].add(s); more != nil {
		n.kids = slices.Insert(n.kids, at+1, more)
	}
	if half := len(n.kids) / 2; len(n.kids) > mostKids {
		right = &node{kids: slices.Clone(n.kids[half:]), low: n.kids[half].low}
		n.kids = n.kids[:half]
	}
	return right
}

// bestGap is the offset of the smallest gap that fits s, the first of equals.
func (h *shelf) bestGap(s *Storage) int64 {
	g := gaps{need: s.room, best: -1}
	if h.root != nil {
		h.search(h.root, s, &g)
	}
	if g.best < 0 {
		return g.end
	}
	return g.best
}

// search meets the storages of n that are live together with s.
func (h *shelf) search(n *node, s *Storage, g *gaps) {
	m := h.summary(n, s)
	switch {
	case m.off < 0 || g.done():
	case m.gap < g.need:
		g.meet(m.off, m.end)
	case g.end > m.off: // a storage of another node covers some of the gaps
		h.searchIn(n, s, g)
	default:
		if m.need != g.need {
			inner := gaps{need: g.need, end: m.off, best: -1}
			h.searchIn(n, s, &inner)
			m.need, m.best, m.size = g.need, inner.best, inner.size
		}
		g.meet(m.off, m.off)
		g.offer(m.best, m.size)
		g.meet(m.off, m.end)
	}
}

// searchIn meets the storages of n one by one, or by the nodes in it.
func (h *shelf) searchIn(n *node, s *Storage, g *gaps) {
	for _, k := range n.kids {
		if g.done() {
			return
		}
		h.search(k, s, g)
	}
	h.looks += len(n.all)
	for _, t := range n.all {
		if t.last >= s.first && s.last >= t.first {
			g.meet(t.Off, t.end())
		}
	}
}

// summary is the summary of the storages of n that are live together with s.
func (h *shelf) summary(n *node, s *Storage) *summary {
	h.looks++
	m := &n.seen[min(bits.Len(uint(s.last-s.first))/2, len(n.seen)-1)]
	if m.holds(s) {
		return m
	}
	*m = summary{valid: true, minFirst: math.MinInt, maxFirst: math.MaxInt, minLast: math.MinInt, maxLast: math.MaxInt, off: -1}
	for _, k := range n.kids {
		of := h.summary(k, s)
		m.minFirst, m.maxFirst = max(m.minFirst, of.minFirst), min(m.maxFirst, of.maxFirst)
		m.minLast, m.maxLast = max(m.minLast, of.minLast), min(m.maxLast, of.maxLast)
		if of.off >= 0 {
			m.gap = max(m.gap, of.gap)
			m.meet(of.off, of.end)
		}
	}
	h.looks += len(n.all)
	for _, t := range n.all {
		m.see(t, s)
	}
	return m
}

// see adds a storage to the summary of those that are live together with s. The
// storage narrows the lives for which the summary holds.
func (m *summary) see(t, s *Storage) {
	switch {
	case t.last < s.first:
		m.minFirst = max(m.minFirst, t.last+1)
	case s.last < t.first:
		m.maxLast = min(m.maxLast, t.first-1)
	default:
		m.maxFirst, m.minLast = min(m.maxFirst, t.last), max(m.minLast, t.first)
		m.meet(t.Off, t.end())
	}
}

// meet adds a range of live storages. Ranges come by offset.
func (m *summary) meet(off, end int64) {
	if m.off < 0 {
		m.off = off
	} else {
		m.gap = max(m.gap, off-m.end)
	}
	m.end = max(m.end, end)
}

// gaps finds the smallest gap of at least need bytes.
type gaps struct {
	need       int64
	end        int64 // offset before which everything was met
	best, size int64 // the best gap so far; best is -1 if there is none
}

// meet passes a range that is taken. Ranges come by offset.
func (g *gaps) meet(off, end int64) {
	if gap := off - g.end; gap >= g.need {
		g.offer(g.end, gap)
	}
	g.end = max(g.end, end)
}

// offer takes a gap that is smaller than the best so far. There is none at -1.
func (g *gaps) offer(at, size int64) {
	if at >= 0 && (g.best < 0 || size < g.size) {
		g.best, g.size = at, size
	}
}

// done reports whether no gap can be better than the best so far.
func (g *gaps) done() bool { return g.best >= 0 && g.size == g.need }
