package recompute

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
)

// Kind names the values that a step computes a second time in the backward
// pass, so that the forward pass need not keep them: less memory for more time,
// and the same bits.
type Kind string

// The values that can be computed again.
const (
	None  Kind = "none"  // none; also the meaning of ""
	Cheap Kind = "cheap" // results of cheap ops on values that are kept
	Block Kind = "block" // all values of a block, except for those that other blocks read
)

// Apply is the pass: the graph with the nodes that compute values again. It ends early
// with the error of c.
func (r Kind) Apply(g *graph.Graph, c *stop.Check) (*graph.Graph, error) {
	switch r {
	case "", None:
		return g, nil
	case Cheap:
		return graph.Recompute(g, newCheap(g, c).decide, c.Err)
	case Block:
		blocks := nodes.Blocks(g)
		return graph.Recompute(g, func(n *graph.Node) bool {
			// Backward begins with the last block, whose values are there still.
			return nodes.BlockOf(n.Layer) != "" && nodes.BlockOf(n.Layer) != blocks[len(blocks)-1]
		}, c.Err)
	}
	return nil, fmt.Errorf("%w: recompute %q: give none, cheap or block", nodes.ErrGraph, r)
}

// cheap finds the nodes whose op is cheap and whose inputs exist in the backward
// pass anyway: they are kept, or recomputed themselves. Keeping an input for
// this alone would gain nothing.
type cheap struct {
	backward []bool // by Value.ID: read in the backward pass
	decided  map[*graph.Node]bool
}

func newCheap(g *graph.Graph, check *stop.Check) *cheap {
	c := &cheap{backward: make([]bool, len(g.Values)), decided: map[*graph.Node]bool{}}
	for _, n := range stop.Each(check, g.Nodes) {
		for _, v := range n.In {
			c.backward[v.ID] = c.backward[v.ID] || n.Phase == graph.Backward
		}
	}
	return c
}

// decide reports whether to recompute n. Nodes are asked about in graph order.
func (c *cheap) decide(n *graph.Node) bool {
	ok := isCheap(n.Op)
	for _, v := range n.In {
		if v.Kind != graph.Computed {
			continue
		}
		here := nodes.BlockOf(v.Node.Layer) == nodes.BlockOf(n.Layer) && c.decided[v.Node]
		ok = ok && (here || c.backward[v.ID] && !c.decided[v.Node])
	}
	c.decided[n] = ok
	return ok
}

// isCheap reports whether an op spends its time on reading and writing memory.
func isCheap(op graph.Op) bool {
	switch op.(type) {
	case ops.Binary, ops.Unary, ops.Affine, ops.Lerp, ops.Compare, ops.Select, ops.BroadcastTo, ops.Reshape, ops.Dropout,
		ops.Softmax, ops.LogSoftmax, ops.LayerNorm, ops.RMSNorm, ops.BatchNorm, ops.Gated, ops.Rotary, graph.Mapper:
		return true
	}
	return false
}
