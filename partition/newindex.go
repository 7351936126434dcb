package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// newIndex reads a graph, and refuses one that no plan can run.
func newIndex(g *graph.Graph, o PlanOptions) (*index, error) {
	idx := &index{
		g: g, microbatches: o.Microbatches, apart: o.Apart,
		readers:  map[*graph.Value][]*graph.Node{},
		variable: map[*graph.Value]*graph.Value{},
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
		case x.variable[a.New] != nil:
			return fmt.Errorf("%w: variables %s and %s are assigned the same value %s; compute it once for each", ErrGraph, x.variable[a.New].Name, a.Var.Name, a.New.Name)
		}
		x.variable[a.New] = a.Var
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

// orderUpdates sorts the update nodes. Each comes after the nodes whose results it
// reads. The node that makes a variable's new value comes after every other
// reader of the old one, since it writes in place.
func (x *index) orderUpdates() error {
	x.before = map[*graph.Node][]*graph.Node{}
	o := &updateOrder{idx: x, done: map[*graph.Node]bool{}, open: map[*graph.Node]bool{}}
	for _, n := range x.g.Nodes {
		if n.Phase == graph.Update {
			if err := o.visit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateOrder is a depth-first topological sort.
type updateOrder struct {
	idx  *index
	done map[*graph.Node]bool
	open map[*graph.Node]bool // on the current path
}

func (o *updateOrder) visit(n *graph.Node) error {
	if o.done[n] {
		return nil
	}
	if o.open[n] {
		return fmt.Errorf("%w: the update is circular at %v: a node that reads a variable's old value depends on its new one; read the new value in both places, or the old one", ErrGraph, n)
	}
	o.open[n] = true
	before := o.before(n)
	for _, d := range before {
		if err := o.visit(d); err != nil {
			return err
		}
	}
	o.open[n] = false
	o.done[n] = true
	o.idx.before[n] = before
	o.idx.updates = append(o.idx.updates, n)
	return nil
}

// before lists the update nodes that must run before n.
func (o *updateOrder) before(n *graph.Node) []*graph.Node {
	var d []*graph.Node
	for _, v := range n.In {
		if v.Kind == graph.Computed && v.Node.Phase == graph.Update {
			d = append(d, v.Node)
		}
	}
	for _, out := range n.Out {
		v := o.idx.variable[out]
		if v == nil {
			continue
		}
		for _, r := range o.idx.readers[v] {
			if r != n && r.Phase == graph.Update {
				d = append(d, r)
			}
		}
	}
	return d
}
