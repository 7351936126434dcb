package segment

import (
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/executor/schedule"
)

// Segment is nodes of one stage that a device compiles and launches as one.
type Segment struct {
	ID      int    // index in Plan.Segments
	Name    string // "s1.F", "s1.BU", "s0.U1", and of a piece "s1.F:block0"
	Piece   string // its label; "" if the segment is all nodes of its passes
	Stage   int
	Pass    schedule.Kind // when it runs: the first pass of the nodes that it is a piece of
	Passes  Passes        // of its nodes
	Replica int           // that runs it, where Pass is Update; all run other passes
	Level   int           // where Pass is Update, from 0

	// First begins the sums over microbatches that the segment writes, Later adds
	// to them. First runs for a step's first microbatch, and Later for the others;
	// by a tree, First for each second one. They are the same without sums. Later.In
	// begins with all of First.In, and both have the same Out values in the same order.
	First, Later Variant
	// Reduce adds the right of two partial sums to the left, for each sum that the
	// segment writes, left and right in turn in In. Its Graph is nil unless sums are
	// made by a tree.
	Reduce Variant
	// ReduceOn is Reduce by replica, of the sums and ranges of sums that end there;
	// nil without ShardOptimizer. It makes sums over more than one replica.
	ReduceOn []Variant
	// Split copies each range that a replica updates out of the sums that the segment
	// writes; its Graph is nil if there is none. It ends a replica's part of a sum.
	Split Variant
}

// Variant is a segment as a device compiles it. Graph.Inputs[i] belongs to
// In[i], Graph.Outputs[i] to Out[i].
type Variant struct {
	Graph   *graph.Graph
	In, Out []Slot
	// Alias[i] is the input whose memory output i takes over, or -1. Such a
	// pair has one lease between them: both slots are ReadWrite and have the
	// same Value.
	Alias []int
}

// Joins reports whether it only puts tensors side by side, or gives them another shape.
func (v *Variant) Joins() bool {
	return !slices.ContainsFunc(v.Graph.Nodes, func(n *graph.Node) bool { return !joins(n) })
}

// joins reports whether a node computes nothing.
func joins(n *graph.Node) bool {
	switch n.Op.(type) {
	case ops.Concat, ops.Reshape:
		return true
	}
	return false
}

// Slot ties an input or output of a segment to the tensor that residency
// knows.
type Slot struct {
	// Value is the identity to look up: for an assigned output the variable,
	// for an accumulated one the sum, otherwise the value itself.
	Value *graph.Value
	Mode  Mode
}

// Mode is how a segment uses a slot's tensor.
type Mode uint8

// The modes.
const (
	Read Mode = iota
	Write
	ReadWrite
)

var modeNames = [...]string{"read", "write", "read-write"}

// String is the mode in lower case.
func (m Mode) String() string { return modeNames[m] }

// running has the letters of the passes in the order in which a stage runs them.
const running = "FBWRU"

// passOrder is a pass's place in running.
func passOrder(k schedule.Kind) int { return strings.IndexByte(running, byte(k)) }

// Passes is a set of passes.
type Passes uint8

// Has reports whether k is in the set.
func (s Passes) Has(k schedule.Kind) bool { return s>>passOrder(k)&1 != 0 }

// Kinds are the passes in running order.
func (s Passes) Kinds() (list []schedule.Kind) {
	for i := range len(running) {
		if k := schedule.Kind(running[i]); s.Has(k) {
			list = append(list, k)
		}
	}
	return list
}

// String is the passes' letters in running order: "FBU".
func (s Passes) String() string {
	var b strings.Builder
	for _, k := range s.Kinds() {
		b.WriteByte(byte(k))
	}
	return b.String()
}

// PassOf is the pass of a node that a launch in pass k runs: the update may run
// together with the backward pass, and this with the forward pass.
func PassOf(n *graph.Node, k schedule.Kind) schedule.Kind {
	switch {
	case n.Phase == graph.Forward:
		return schedule.Forward
	case n.Phase == graph.Update:
		return schedule.Update
	case k == schedule.Weights:
		return schedule.Weights
	}
	return schedule.Backward
}

// Grain is how finely a stage is cut into segments. A launch of a finer segment
// needs less memory at once; the price is more launches, and values that
// segments share where they were inside one. Nodes and their order are the same.
type Grain uint8

// The grains, from coarse to fine.
const (
	WholePhases Grain = iota // a segment per phase and level of the update
	ByBlock                  // cut at blocks, and updates at parameters
	ByLayer                  // cut at layers too
	ByNode                   // cut at every op
	Grains      int   = iota
)

var grainNames = [Grains]string{"whole phases", "blocks", "layers", "ops"}

// String is for people: "blocks".
func (g Grain) String() string { return grainNames[g] }
