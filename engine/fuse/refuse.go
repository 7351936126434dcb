package fuse

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// mostNodes is the most nodes of a cluster: tiles of all its operands should fit
// the cache.
const mostNodes = 24

// refusal is the reason why two groups cannot be one, where b reads a value of a;
// empty if they can.
func (c *cutter) refusal(a, b *group) string {
	for _, g := range []*group{a, b} {
		if first := g.items[0]; first.rule.class == Solo || first.rule.class == Small || first.rule.class == Rows {
			return first.node.Op.Kind() + " " + first.rule.why
		}
	}
	_, fits := a.frame.join(b.frame)
	switch {
	case b.head != nil && c.feeds(a, b.head):
		return b.head.node.Op.Kind() + " " + b.head.rule.why
	case b.head != nil && a.head != nil:
		return fmt.Sprintf("%s and %s both make tiles of their own", a.head.node.Op.Kind(), b.head.node.Op.Kind())
	case a.items[0].node.Phase == graph.Forward && slices.ContainsFunc(b.items, func(it *item) bool { return it.node.Recomputed }):
		return "it is recomputed so that it need not be kept"
	case !sameGuards(a, b):
		return "one of them may be skipped without the other"
	case !fits:
		return fmt.Sprintf("%v do not go with %v", a.frame, b.frame)
	case len(a.items)+len(b.items) > mostNodes:
		return fmt.Sprintf("%d nodes are enough for a cluster", mostNodes)
	}
	if why := c.cheaperApart(a, b); why != "" {
		return why
	}
	if why := c.sideways(a, b); why != "" {
		return why
	}
	if via := c.detour(a, b); via != nil {
		return via.Op.Kind() + " comes between"
	}
	return ""
}

// sameGuards tells whether two groups are skipped together.
func sameGuards(a, b *group) bool { return slices.Equal(a.items[0].when, b.items[0].when) }

// sideways is the reason why one of two groups needs more than tiles of the other:
// it reads a sum, or an output of a head that is not made of tiles, or it sums
// rows that come in parts. It is empty if there is none.
func (c *cutter) sideways(a, b *group) string {
	head := a.head
	if head == nil {
		head = b.head
	}
	for _, g := range []*group{a, b} {
		for _, it := range g.items {
			if it.rule.class == Sum && head != nil && !head.rule.whole {
				return head.node.Op.Kind() + " makes parts of rows, and sums take whole ones"
			}
			for _, v := range it.node.In {
				from := c.producer(v)
				switch {
				case from == nil || from.group != a && from.group != b:
				case from.rule.class == Sum:
					return from.node.Op.Kind() + " is known only at the end of a sum"
				case from == head && c.root(v).Out > 0:
					return it.node.Op.Kind() + " reads more than tiles"
				}
			}
		}
	}
	return ""
}

// waits tells whether a node reads the first output of a node of a group.
func (c *cutter) waits(it *item, g *group) bool {
	return slices.ContainsFunc(it.node.In, func(v *graph.Value) bool {
		p := c.producer(v)
		return p != nil && p.group == g && c.root(v).Out == 0
	})
}

// independent tells whether two groups may run at the same time.
func (c *cutter) independent(a, b *group) bool {
	for _, g := range [][2]*group{{a, b}, {b, a}} {
		for _, it := range g[0].items {
			for _, r := range it.after {
				if r.group == g[1] {
					return false
				}
			}
		}
	}
	return c.detour(a, b) == nil
}

// feeds tells whether a group makes an operand of it.
func (c *cutter) feeds(a *group, it *item) bool {
	return slices.ContainsFunc(it.node.In, func(v *graph.Value) bool {
		p := c.producer(v)
		return p != nil && p.group == a
	})
}
