package partition

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// index answers the passes' questions to a graph.
type index struct {
	g            *graph.Graph
	microbatches int
	apart        bool // every phase of a stage is a segment of its own
	readers      map[*graph.Value][]*graph.Node
	variable     map[*graph.Value]*graph.Value // assigned value → its variable
	part         map[*graph.Value]*graph.Value // sum → its part, the value summed over microbatches
	accums       map[*graph.Value][]int        // part → indices in g.Accums
	output       map[*graph.Value]bool         // in g.Outputs
	assigned     map[*graph.Value]*graph.Node  // variable → the node that makes its new value
	updates      []*graph.Node                 // the update's nodes in running order
	before       map[*graph.Node][]*graph.Node // update node → update nodes that must run before it
	ids          int                           // more than any node's ID
}

// read lists the values that nodes read but do not make, once each, in order of
// first use.
func read(nodes []*graph.Node) []*graph.Value {
	made := map[*graph.Value]bool{}
	var in []*graph.Value
	for _, n := range nodes {
		for _, v := range n.In {
			if !made[v] {
				made[v] = true
				in = append(in, v)
			}
		}
		for _, v := range n.Out {
			made[v] = true
		}
	}
	return in
}

// identity is the value by which residency knows v.
func (x *index) identity(v *graph.Value) *graph.Value {
	if h := x.variable[v]; h != nil {
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
	for _, r := range x.readers[v] {
		last = max(last, r.Phase)
	}
	return last
}
