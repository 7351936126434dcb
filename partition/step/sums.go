package step

import "math/bits"

// sumRange is a node of the tree: the sum of microbatches lo to hi-1. Its tensor
// is the instance of microbatch lo, so that a node takes over the memory of its
// left child.
type sumRange struct{ lo, hi int }

// middle is where the right child begins: the left one has the largest power of
// two below the length. So the tree depends on the number of microbatches alone.
func (r sumRange) middle() int { return r.lo + 1<<(bits.Len(uint(r.hi-r.lo-1))-1) }

// parent is the node above r in the tree over that many microbatches; ok is false
// at the root.
func (r sumRange) parent(microbatches int) (p sumRange, ok bool) {
	p = sumRange{0, microbatches}
	for p != r {
		ok = true
		next, mid := p, p.middle()
		if r.lo < mid {
			next.hi = mid
		} else {
			next.lo = mid
		}
		if next == r {
			return p, true
		}
		p = next
	}
	return p, ok
}

// summing tells the sums that launches write, and when two can be added. The expansion of a step
// owns it: it notes what the launches so far have written.
type summing struct {
	tree    bool
	replica []int // of each microbatch
	since   []int // of each microbatch: the first from which on all up to it are of its replica
	done    map[segmentSum]bool
}

func newSumming(tree bool, replica []int) summing {
	since := make([]int, len(replica))
	for i := 1; i < len(replica); i++ {
		if since[i] = i; replica[i] == replica[i-1] {
			since[i] = since[i-1]
		}
	}
	return summing{tree: tree, replica: replica, since: since, done: map[segmentSum]bool{}}
}

// onOne reports whether all microbatches of r are of one replica.
func (s *summing) onOne(r sumRange) bool { return s.since[r.hi-1] <= r.lo }

// segmentSum is a sum that a segment has written.
type segmentSum struct {
	segment int // its ID
	sumRange
}

// leaf is the sum that a segment writes in a microbatch. later tells that it adds to
// the sum of the microbatch before: with a tree, where both are a node and on one
// replica.
func (s *summing) leaf(microbatch int) (r sumRange, later bool) {
	switch {
	case !s.tree:
		return sumRange{0, microbatch + 1}, microbatch > 0
	case microbatch%2 == 1 && s.replica[microbatch-1] == s.replica[microbatch]:
		return sumRange{microbatch - 1, microbatch + 1}, true
	}
	return sumRange{microbatch, microbatch + 1}, false
}

// complete notes a sum, and returns the node above it if it can be computed now.
func (s *summing) complete(segment int, r sumRange) (above sumRange, ok bool) {
	if !s.tree {
		return r, false
	}
	s.done[segmentSum{segment, r}] = true
	above, ok = r.parent(len(s.replica))
	if !ok {
		return above, false
	}
	mid := above.middle()
	for _, child := range []sumRange{{above.lo, mid}, {mid, above.hi}} {
		if !s.done[segmentSum{segment, child}] {
			return above, false
		}
	}
	return above, true
}

// largest reports whether r is of one replica and no node above it is.
func (s *summing) largest(r sumRange) bool {
	above, ok := r.parent(len(s.replica))
	return s.onOne(r) && !(ok && s.onOne(above))
}
