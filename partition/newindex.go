package partition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
)

// indexOptions says how the steps of a plan run a graph.
type indexOptions struct {
	microbatches int  // of a step, at least 1
	tree         bool // microbatches are summed by a tree
	apart        bool // every phase of a stage is a segment of its own
	splits       bool // the schedule has W passes: B leaves weight gradients to them
	ranged       bool // updates of g are in ranges on one replica
}

// newIndex reads a graph, and refuses one that no plan can run.
func newIndex(g *graph.Graph, o indexOptions, c *stop.Check) (*index, error) {
	values := len(g.Values)
	idx := &index{
		g: g, indexOptions: o, stop: c,
		readers:  make([][]*graph.Node, values),
		variable: make([]*graph.Value, values),
		part:     make([]*graph.Value, values),
		ranges:   make([][]*graph.Value, values),
		accums:   make([][]int, values),
		output:   make([]bool, values),
		assigned: make([]*graph.Node, values),
	}
	for _, v := range g.Outputs {
		idx.output[v.ID] = true
	}
	for _, step := range []func() error{idx.addNodes, idx.addAccums, idx.addAssigns, idx.addInPlace, idx.checkPhases, idx.orderUpdates} {
		if err := cmp.Or(step(), c.Err()); err != nil {
			return nil, err
		}
	}
	return idx, nil
}

func (x *index) addNodes() error {
	for _, n := range stop.Each(x.stop, x.g.Nodes) {
		x.ids = max(x.ids, n.ID+1)
		for _, v := range n.In {
			rs := x.readers[v.ID]
			if len(rs) == 0 || rs[len(rs)-1] != n {
				x.readers[v.ID] = append(rs, n)
			}
			if len(rs) == 0 && v.Kind == graph.Summed && v.Range != nil {
				of := v.Whole().ID
				x.ranges[of] = append(x.ranges[of], v)
			}
		}
	}
	x.at = make([]int, x.ids)
	x.before, x.behind = make([][]*graph.Node, x.ids), make([][]*graph.Node, x.ids)
	for i, n := range stop.Each(x.stop, x.g.Nodes) {
		x.at[n.ID] = i
	}
	return nil
}

func (x *index) addAccums() error {
	for i, a := range stop.Each(x.stop, x.g.Accums) {
		if !perMicrobatch(a.Part) || a.Part.Kind != graph.Computed {
			return fmt.Errorf("%w: %s sums %s, which no node of the forward or backward pass computes; accumulate the result of an op", ErrGraph, a.Sum.Name, a.Part.Name)
		}
		ranges := x.ranges[a.Sum.ID]
		if len(x.readers[a.Sum.ID]) == 0 && len(ranges) == 0 && !x.output[a.Sum.ID] {
			continue // nothing asks for it
		}
		slices.SortFunc(ranges, func(v, w *graph.Value) int { return cmp.Compare(v.Range.From, w.Range.From) })
		for _, v := range append(ranges, a.Sum) {
			x.part[v.ID] = a.Part
		}
		x.accums[a.Part.ID] = append(x.accums[a.Part.ID], i)
	}
	return nil
}

func (x *index) addAssigns() error {
	for _, a := range stop.Each(x.stop, x.g.Assigns) {
		switch {
		case a.New.Kind != graph.Computed || a.New.Node.Phase != graph.Update:
			return fmt.Errorf("%w: variable %s is assigned %s, which no node of the update computes; assign the result of an op built in the Update phase", ErrGraph, a.Var.Name, a.New.Name)
		case x.assigned[a.Var.ID] != nil:
			return fmt.Errorf("%w: variable %s is assigned twice in a step; assign it once", ErrGraph, a.Var.Name)
		case x.variable[a.New.ID] != nil:
			return fmt.Errorf("%w: variables %s and %s are assigned the same value %s; compute it once for each", ErrGraph, x.variable[a.New.ID].Name, a.Var.Name, a.New.Name)
		}
		x.variable[a.New.ID] = a.Var
		x.assigned[a.Var.ID] = a.New.Node
	}
	return nil
}

// addInPlace finds the values of updates in ranges that take the place of others: of
// a weight with some ranges updated, and of a sum that is added to and not read
// otherwise.
func (x *index) addInPlace() error {
	if !x.ranged {
		return nil
	}
	for _, n := range stop.Each(x.stop, x.g.Nodes) {
		at := aliasOf(n)
		if n.Phase != graph.Update || at == nil {
			continue
		}
		for k, out := range n.Out {
			if at[k] >= 0 && x.variable[out.ID] == nil {
				x.variable[out.ID] = x.replaced(n, n.In[at[k]], out)
			}
		}
	}
	return nil
}

// replaced is the variable or sum whose place out may take, which n makes of v; nil
// if there is none.
func (x *index) replaced(n *graph.Node, v, out *graph.Value) *graph.Value {
	_, ranged := n.Op.(ops.Ranged)
	old := x.identity(v)
	switch {
	case ranged:
		return old
	case old.Kind == graph.Variable, old.Kind == graph.Computed && (old.Node.Phase == graph.Update || len(x.accums[old.ID]) > 0):
		return nil
	case scalar(v), !v.Meta.Equal(out.Meta), len(x.readers[v.ID]) > 1, x.output[v.ID], x.output[out.ID]:
		return nil
	}
	return old
}

// checkPhases refuses reads that have no single instance to read, or that go
// back in time.
func (x *index) checkPhases() error {
	for _, n := range stop.Each(x.stop, x.g.Nodes) {
		for _, v := range n.In {
			switch {
			case v.Kind == graph.Computed && v.Node.Phase > n.Phase:
				return fmt.Errorf("%w: %v in the %v reads %s, which the %v computes later", ErrGraph, n, n.Phase, v.Name, v.Node.Phase)
			case v.Kind == graph.Summed && n.Phase != graph.Update:
				return fmt.Errorf("%w: %v reads the sum %s before it is complete; read it in the Update phase", ErrGraph, n, v.Name)
			case v.Kind == graph.Summed && x.part[v.ID] == nil:
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
	o := &updateOrder{idx: x, done: make([]bool, x.ids), open: make([]bool, x.ids)}
	for _, n := range stop.Each(x.stop, x.g.Nodes) {
		if n.Phase == graph.Update {
			if err := o.visit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateOrder is a depth-first topological sort. Its tables are by Node.ID.
type updateOrder struct {
	idx  *index
	done []bool
	open []bool // on the current path
}

func (o *updateOrder) visit(n *graph.Node) error {
	if o.done[n.ID] {
		return nil
	}
	if o.open[n.ID] {
		return fmt.Errorf("%w: the update is circular at %v: a node that reads a variable's old value depends on its new one; read the new value in both places, or the old one", ErrGraph, n)
	}
	o.open[n.ID] = true
	x := o.idx
	x.addOrder(n)
	for _, d := range x.before[n.ID] {
		if err := o.visit(d); err != nil {
			return err
		}
	}
	o.open[n.ID] = false
	o.done[n.ID] = true
	x.at[n.ID] = len(x.updates)
	x.updates = append(x.updates, n)
	return nil
}

// addOrder lists the nodes that must run before an update node: it reads their
// results, or overwrites a variable that they read.
func (x *index) addOrder(n *graph.Node) {
	add := func(d *graph.Node) {
		switch {
		case d == n:
		case d.Phase == graph.Update:
			x.before[n.ID] = append(x.before[n.ID], d)
		default:
			x.behind[n.ID] = append(x.behind[n.ID], d)
		}
	}
	for _, v := range n.In {
		if v.Kind == graph.Computed {
			add(v.Node)
		}
	}
	for _, out := range n.Out {
		if v := x.variable[out.ID]; v != nil {
			for _, r := range x.readers[v.ID] {
				add(r)
			}
		}
	}
}
