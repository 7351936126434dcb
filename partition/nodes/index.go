package nodes

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// Index answers the passes' questions to a graph. It is made once for each graph, by [New],
// and does not change.
type Index struct {
	Options
	Graph *graph.Graph
	IDs   int         // more than any node's ID
	Stop  *stop.Check // of the call that plans

	// By Value.ID.
	Readers  [][]*graph.Node  // each node once, in graph order
	Variable []*graph.Value   // of a value that takes the place of a variable, or of a sum: that one
	Part     []*graph.Value   // of a sum or a range of it: its part, the value summed over microbatches
	Ranges   [][]*graph.Value // of a sum: its ranges that the update reads, in their order
	Accums   [][]int          // of a part: its indices in Graph.Accums
	Output   []bool           // it is in Graph.Outputs
	Assigned []*graph.Node    // of a variable: the node that makes its new value

	// By Node.ID; Before and Behind are of nodes of the update.
	Position []int           // the node's position: in Graph.Nodes, or in Updates for a node of the update
	Before   [][]*graph.Node // update nodes that must run before it
	Behind   [][]*graph.Node // forward and backward nodes that must run before it

	Updates []*graph.Node // the update's nodes in running order
}

// Identity is the value by which residency knows v.
func (x *Index) Identity(v *graph.Value) *graph.Value {
	if h := x.Variable[v.ID]; h != nil {
		return h
	}
	return v
}

// PerMicrobatch reports whether a step has an instance of a value for each microbatch.
func PerMicrobatch(v *graph.Value) bool {
	return v.Kind == graph.Input || v.Kind == graph.Computed && v.Node.Phase != graph.Update
}

// Usage is the usage that a value's memory counts as.
func (x *Index) Usage(v *graph.Value) device.Usage {
	switch {
	case v.Kind == graph.Input:
		return device.Input
	case v.Kind == graph.Variable && (v.Role == graph.Parameter || v.Role == graph.Statistic):
		return device.Weight
	case v.Kind == graph.Variable && v.Role == graph.Cache:
		return device.Cache
	case v.Kind == graph.Variable:
		return device.OptState
	case v.Kind == graph.Summed, x.LastPhase(v) == graph.Update:
		return device.Grad
	}
	return device.Activation
}

// LastPhase is the latest phase that reads v.
func (x *Index) LastPhase(v *graph.Value) graph.Phase {
	last := v.Node.Phase
	for _, r := range x.Readers[v.ID] {
		last = max(last, r.Phase)
	}
	return last
}

// AliasOf is, per output of a node, the input it may be computed in; nil if
// its op names none.
func AliasOf(n *graph.Node) []int {
	if a, ok := n.Op.(graph.Aliaser); ok {
		if at := a.Alias(); len(at) == len(n.Out) {
			return at
		}
	}
	return nil
}

// WholeStep is the bytes of a variable or input in a step.
func (x *Index) WholeStep(v *graph.Value) int64 {
	if v.Kind == graph.Input {
		return v.Meta.Bytes() * int64(x.Microbatches)
	}
	return v.Meta.Bytes()
}

// PartialSums is the number of sums of one part that there are at once.
func (x *Index) PartialSums() int64 {
	if x.Tree {
		return int64(PartialSums(x.Microbatches))
	}
	return 1
}

// Scalar reports whether a value is one number.
func Scalar(v *graph.Value) bool { return v.Meta.Elems() <= 1 }

// Scalars reports whether all values are one number each.
func Scalars(vs []*graph.Value) bool {
	for _, v := range vs {
		if !Scalar(v) {
			return false
		}
	}
	return true
}

// OwnsItself reports whether variables of a role are placed by the layer that reads them,
// and not by the nodes that assign them.
func OwnsItself(r graph.Role) bool {
	return r == graph.Parameter || r == graph.Statistic || r == graph.Cache
}

// RangeName names the part of a variable that a node of the update changes.
func RangeName(variable string, from, count int) string {
	return fmt.Sprintf("%s[%d:%d]", variable, from, from+count)
}

// PartialSums is the most sums of a tree that are kept at once, if microbatches
// come in their order: one for each 1 of an even index, and its own.
func PartialSums(microbatches int) int {
	most := 1
	for m := 0; m < microbatches; m += 2 {
		most = max(most, bits.OnesCount(uint(m))+1)
	}
	return most
}

// Total is the bytes of all usages.
func Total(m [device.NumUsages]int64) int64 {
	var t int64
	for _, b := range m {
		t += b
	}
	return t
}

// ErrGraph is the cause of errors about graphs that no plan can run.
var ErrGraph = errors.New("the graph cannot be partitioned")

// Merging reports whether passes may share a unit. A schedule with weight gradients
// of their own places each pass itself.
func (x *Index) Merging() bool { return x.Microbatches == 1 && !x.Apart && !x.Splits }

// Movable reports whether a node of the update can be on any device: it makes a number,
// or a counter or metric that all stages share.
func (x *Index) Movable(n *graph.Node) bool {
	if n.Phase != graph.Update {
		return false
	}
	shared := false
	for _, out := range n.Out {
		v := x.Variable[out.ID]
		if v != nil && OwnsItself(v.Role) {
			return false
		}
		shared = shared || v != nil && (v.Role == graph.Counter || v.Role == graph.Metric)
	}
	return shared || Scalars(n.Out)
}

// Blocks are the names of the top-level layers, in the order of their
// first nodes.
func Blocks(g *graph.Graph) []string {
	var blocks []string
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		if b := BlockOf(n.Layer); b != "" && n.Phase == graph.Forward && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// BlockOf is the block of a layer; "" for none.
func BlockOf(l *graph.Layer) string {
	if l == nil {
		return ""
	}
	return l.Block
}

// OneGroupEach makes each block its own group.
func OneGroupEach(blocks []string) map[string]int {
	m := map[string]int{}
	for i, b := range blocks {
		m[b] = i
	}
	return m
}
