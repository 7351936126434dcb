package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// index answers what the passes ask of a graph.
type index struct {
	g            *graph.Graph
	microbatches int
	apart        bool // every phase of a stage is a segment of its own
	readers      map[*graph.Value][]*graph.Node
	holder       map[*graph.Value]*graph.Value // assigned value → its variable
	part         map[*graph.Value]*graph.Value // sum → what it sums
	accums       map[*graph.Value][]int        // part → indices in g.Accums
	output       map[*graph.Value]bool         // in g.Outputs
	assigned     map[*graph.Value]*graph.Node  // variable → the node that makes its new value
	updates      []*graph.Node                 // the update's nodes in running order
	before       map[*graph.Node][]*graph.Node // update node → those that must run before it
	ids          int                           // more than any node's ID
}

// newIndex reads a graph, and refuses what no plan can run.
func newIndex(g *graph.Graph, o PlanOptions) (*index, error) {
	idx := &index{
		g: g, microbatches: o.Microbatches, apart: o.Apart,
		readers:  map[*graph.Value][]*graph.Node{},
		holder:   map[*graph.Value]*graph.Value{},
		part:     map[*graph.Value]*graph.Value{},
		accums:   map[*graph.Value][]int{},
		output:   map[*graph.Value]bool{},
		assigned: map[*graph.Value]*graph.Node{},
	}
	for _, n := range g.Nodes {
		idx.ids = max(idx.ids, n.ID+1)
		for i, v := range n.In {
			if !contains(n.In[:i], v) {
				idx.readers[v] = append(idx.readers[v], n)
			}
		}
	}
	for _, v := range g.Outputs {
		idx.output[v] = true
	}
	for _, step := range []func() error{idx.addAccums, idx.addAssigns, idx.checkPhases, idx.orderUpdates} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return idx, nil
}

func contains(vs []*graph.Value, v *graph.Value) bool {
	for _, x := range vs {
		if x == v {
			return true
		}
	}
	return false
}

func (x *index) addAccums() error {
	for i, a := range x.g.Accums {
		if !perMicrobatch(a.Part) || a.Part.Kind != graph.Computed {
			return fmt.Errorf("%w: %s sums %s, which no node of the forward or backward pass computes; accumulate the result of an op", ErrGraph, a.Sum.Name, a.Part.Name)
		}
		if len(x.readers[a.Sum]) == 0 && !x.output[a.Sum] {
			continue // nothing asks for it
		}
		x.part[a.Sum] = a.Part
		x.accums[a.Part] = append(x.accums[a.Part], i)
	}
	return nil
}

func (x *index) addAssigns() error {
	for _, a := range x.g.Assigns {
		switch {
		case a.New.Kind != graph.Computed || a.New.Node.Phase != graph.Update:
			return fmt.Errorf("%w: variable %s is assigned %s, which no node of the update computes; assign the result of an op built in the Update phase", ErrGraph, a.Var.Name, a.New.Name)
		case x.assigned[a.Var] != nil:
			return fmt.Errorf("%w: variable %s is assigned twice in a step; assign it once", ErrGraph, a.Var.Name)
		case x.holder[a.New] != nil:
			return fmt.Errorf("%w: variables %s and %s are assigned the same value %s; compute it once for each", ErrGraph, x.holder[a.New].Name, a.Var.Name, a.New.Name)
		}
		x.holder[a.New] = a.Var
		x.assigned[a.Var] = a.New.Node
	}
	return nil
}

// checkPhases refuses reads that have no single instance to read, or that go
// back in time.
func (x *index) checkPhases() error {
	for _, n := range x.g.Nodes {
		for _, v := range n.In {
			switch {
			case v.Kind == graph.Computed && v.Node.Phase > n.Phase:
				return fmt.Errorf("%w: %v in the %v reads %s, which the %v computes later", ErrGraph, n, n.Phase, v.Name, v.Node.Phase)
			case v.Kind == graph.Summed && n.Phase != graph.Update:
				return fmt.Errorf("%w: %v reads the sum %s before it is complete; read it in the Update phase", ErrGraph, n, v.Name)
			case v.Kind == graph.Summed && x.part[v] == nil:
				return fmt.Errorf("%w: %v reads the sum %s, which has no part; make it with Builder.Accumulate", ErrGraph, n, v.Name)
			case n.Phase == graph.Update && perMicrobatch(v) && x.microbatches > 1:
				return fmt.Errorf("%w: %v reads %s in the update, but a step of %d microbatches has that many of it; read Builder.Accumulate of it", ErrGraph, n, v.Name, x.microbatches)
			}
		}
	}
	return nil
}

// read lists, in order of first use and once each, what nodes read but do not
// make.
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

// held is the identity by which residency knows v.
func (x *index) held(v *graph.Value) *graph.Value {
	if h := x.holder[v]; h != nil {
		return h
	}
	return v
}
