package fuse

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/units"
)

// The time of going over a tensor, in nanoseconds for each KiB, on one core of a cpu
// device. In the launch of a matmul of 128 or 256 rows of 512 or 1,024, two more operands take it 6 %
// longer by parts of rows than by themselves (AVX-512).
const (
	byParts  = 8.0 // by parts of rows, in a group with a lean head
	byItself = 5.0
)

// cheaperApart is the reason why two groups behind a lean head stay apart for their cost;
// empty if they do not. As one, they go over some tensors by parts of rows; apart, they
// write one tensor more and read it again.
func (c *cutter) cheaperApart(a, b *group) string {
	n, bytes := c.streams(a, b), int64(a.frame.Elems)*4
	fused, apart := float64(n)*byParts, 2*byItself
	if fused <= apart {
		return ""
	}
	cost := func(each float64) string {
		return units.Time(time.Duration(each * float64(bytes) / 1024))
	}
	return fmt.Sprintf("apart is cheaper: in one pass, %d tensors of %s by parts of rows take %s; writing and reading one more takes %s",
		n, units.Bytes(bytes), cost(fused), cost(apart))
}

// streams counts the tensors of the frame's size that two groups behind a lean
// head read and write, the head's own inputs aside. A lean head makes small parts
// of rows.
func (c *cutter) streams(a, b *group) int {
	if a.head == nil && b.head == nil || a.head != nil && !a.head.rule.lean || b.head != nil && !b.head.rule.lean {
		return 0
	}
	inside := func(it *item) bool { return it != nil && (it.group == a || it.group == b) }
	seen := map[*graph.Value]bool{}
	for _, it := range append(slices.Clone(a.items), b.items...) {
		for _, v := range it.node.In {
			if v = c.root(v); it.rule.class != Head && !inside(c.producer(v)) && v.Meta.Elems() == it.frame.Elems {
				seen[v] = true
			}
		}
		for _, v := range it.node.Out {
			if c.values.At(v).output ||
				slices.ContainsFunc(it.after, func(r *item) bool {
					return !inside(r) && slices.ContainsFunc(r.node.In, func(in *graph.Value) bool { return c.root(in) == v })
				}) {
				seen[v] = true
			}
		}
	}
	return len(seen)
}
