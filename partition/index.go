package partition

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// index answers the passes' questions to a graph.
type index struct {
	indexOptions
	g    *graph.Graph
	ids  int         // more than any node's ID
	stop *stop.Check // of the call that plans

	// By Value.ID.
	readers  [][]*graph.Node  // each node once, in graph order
	variable []*graph.Value   // of a value that takes the place of a variable, or of a sum: that one
	part     []*graph.Value   // of a sum or a range of it: its part, the value summed over microbatches
	ranges   [][]*graph.Value // of a sum: its ranges that the update reads, in their order
	accums   [][]int          // of a part: its indices in g.Accums
	output   []bool           // it is in g.Outputs
	assigned []*graph.Node    // of a variable: the node that makes its new value

	// By Node.ID; before and behind are of nodes of the update.
	at     []int           // the node's position: in g.Nodes, or in updates for a node of the update
	before [][]*graph.Node // update nodes that must run before it
	behind [][]*graph.Node // forward and backward nodes that must run before it

	updates []*graph.Node // the update's nodes in running order
}

// identity is the value by which residency knows v.
func (x *index) identity(v *graph.Value) *graph.Value {
	if h := x.variable[v.ID]; h != nil {
		return h
	}
	return v
}

func perMicrobatch(v *graph.Value) bool {
	return v.Kind == graph.Input || v.Kind == graph.Computed && v.Node.Phase != graph.Update
}

// usage is the usage that a value's memory counts as.
func (x *index) usage(v *graph.Value) device.Usage {
	switch {
	case v.Kind == graph.Input:
		return device.Input
	case v.Kind == graph.Variable && (v.Role == graph.Parameter || v.Role == graph.Statistic):
		return device.Weight
	case v.Kind == graph.Variable && v.Role == graph.Cache:
		return device.Cache
	case v.Kind == graph.Variable:
		return device.OptState
	case v.Kind == graph.Summed, x.lastPhase(v) == graph.Update:
		return device.Grad
	}
	return device.Activation
}

// lastPhase is the latest phase that reads v.
func (x *index) lastPhase(v *graph.Value) graph.Phase {
	last := v.Node.Phase
	for _, r := range x.readers[v.ID] {
		last = max(last, r.Phase)
	}
	return last
}

// aliasOf is, per output of a node, the input it may be computed in; nil if
// its op names none.
func aliasOf(n *graph.Node) []int {
	if a, ok := n.Op.(graph.Aliaser); ok {
		if at := a.Alias(); len(at) == len(n.Out) {
			return at
		}
	}
	return nil
}

// wholeStep is the bytes of a variable or input in a step.
func (x *index) wholeStep(v *graph.Value) int64 {
	if v.Kind == graph.Input {
		return v.Meta.Bytes() * int64(x.microbatches)
	}
	return v.Meta.Bytes()
}

// partialSums is the number of sums of one part that there are at once.
func (x *index) partialSums() int64 {
	if x.tree {
		return int64(partialSums(x.microbatches))
	}
	return 1
}

func scalar(v *graph.Value) bool { return v.Meta.Elems() <= 1 }

func scalars(vs []*graph.Value) bool {
	for _, v := range vs {
		if !scalar(v) {
			return false
		}
	}
	return true
}

// ownsItself reports whether variables of a role are placed by the layer that reads them,
// and not by the nodes that assign them.
func ownsItself(r graph.Role) bool {
	return r == graph.Parameter || r == graph.Statistic || r == graph.Cache
}

// rangeLabel names the part of a variable that a node of the update changes.
func rangeLabel(variable string, from, count int) string {
	return fmt.Sprintf("%s[%d:%d]", variable, from, from+count)
}

// partialSums is the most sums of a tree that are kept at once, if microbatches
// come in their order: one for each 1 of an even index, and its own.
func partialSums(microbatches int) int {
	most := 1
	for m := 0; m < microbatches; m += 2 {
		most = max(most, bits.OnesCount(uint(m))+1)
	}
	return most
}

// total is the bytes of all usages.
func total(m [device.NumUsages]int64) int64 {
	var t int64
	for _, b := range m {
		t += b
	}
	return t
}

// ErrGraph is the cause of errors about graphs that no plan can run.
var ErrGraph = errors.New("the graph cannot be partitioned")

// merging reports whether passes may share a unit. A schedule with weight gradients
// of their own places each pass itself.
func (x *index) merging() bool { return x.microbatches == 1 && !x.apart && !x.splits }
