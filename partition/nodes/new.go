package nodes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
)

// Options says how the steps of a plan run a graph.
type Options struct {
	Microbatches int  // of a step, at least 1
	Tree         bool // microbatches are summed by a tree
	Apart        bool // every phase of a stage is a segment of its own
	Splits       bool // the schedule has W passes: B leaves weight gradients to them
	Ranged       bool // updates of g are in ranges on one replica
	JoinsApart   bool // what joins ranges of a parameter is a segment of its own, since several ranks run it
}

// New reads a graph, and refuses one that no plan can run.
func New(g *graph.Graph, o Options, c *stop.Check) (*Index, error) {
	values := len(g.Values)
	idx := &Index{
		Graph: g, Options: o, Stop: c,
		Readers:  make([][]*graph.Node, values),
		Variable: make([]*graph.Value, values),
		Part:     make([]*graph.Value, values),
		Ranges:   make([][]*graph.Value, values),
		Accums:   make([][]int, values),
		Output:   make([]bool, values),
		Assigned: make([]*graph.Node, values),
	}
	for _, v := range g.Outputs {
		idx.Output[v.ID] = true
	}
	for _, step := range []func() error{idx.addNodes, idx.addAccums, idx.addAssigns, idx.addInPlace, idx.checkPhases, idx.orderUpdates} {
		if err := cmp.Or(step(), c.Err()); err != nil {
			return nil, err
		}
	}
	return idx, nil
}

func (x *Index) addNodes() error {
	for _, n := range stop.Each(x.Stop, x.Graph.Nodes) {
		x.IDs = max(x.IDs, n.ID+1)
		for _, v := range n.In {
			rs := x.Readers[v.ID]
			if len(rs) == 0 || rs[len(rs)-1] != n {
				x.Readers[v.ID] = append(rs, n)
			}
			if len(rs) == 0 && v.Kind == graph.Summed && v.Range != nil {
				of := v.Whole().ID
				x.Ranges[of] = append(x.Ranges[of], v)
			}
		}
	}
	x.Position = make([]int, x.IDs)
	x.Before, x.Behind = make([][]*graph.Node, x.IDs), make([][]*graph.Node, x.IDs)
	for i, n := range stop.Each(x.Stop, x.Graph.Nodes) {
		x.Position[n.ID] = i
	}
	return nil
}

func (x *Index) addAccums() error {
	for i, a := range stop.Each(x.Stop, x.Graph.Accums) {
		if !PerMicrobatch(a.Part) || a.Part.Kind != graph.Computed {
			return fmt.Errorf("%w: %s sums %s, which no node of the forward or backward pass computes; accumulate the result of an op", ErrGraph, a.Sum.Name, a.Part.Name)
		}
		ranges := x.Ranges[a.Sum.ID]
		if len(x.Readers[a.Sum.ID]) == 0 && len(ranges) == 0 && !x.Output[a.Sum.ID] {
			continue // nothing asks for it
		}
		slices.SortFunc(ranges, func(v, w *graph.Value) int { return cmp.Compare(v.Range.From, w.Range.From) })
		for _, v := range append(ranges, a.Sum) {
			x.Part[v.ID] = a.Part
		}
		x.Accums[a.Part.ID] = append(x.Accums[a.Part.ID], i)
	}
	return nil
}

func (x *Index) addAssigns() error {
	for _, a := range stop.Each(x.Stop, x.Graph.Assigns) {
		switch {
		case a.New.Kind != graph.Computed || a.New.Node.Phase != graph.Update:
			return fmt.Errorf("%w: variable %s is assigned %s, which no node of the update computes; assign the result of an op built in the Update phase", ErrGraph, a.Var.Name, a.New.Name)
		case x.Assigned[a.Var.ID] != nil:
			return fmt.Errorf("%w: variable %s is assigned twice in a step; assign it once", ErrGraph, a.Var.Name)
		case x.Variable[a.New.ID] != nil:
			return fmt.Errorf("%w: variables %s and %s are assigned the same value %s; compute it once for each", ErrGraph, x.Variable[a.New.ID].Name, a.Var.Name, a.New.Name)
		}
		x.Variable[a.New.ID] = a.Var
		x.Assigned[a.Var.ID] = a.New.Node
	}
	return nil
}

// addInPlace finds the values of updates in ranges that take the place of others: of
// a weight with some ranges updated, and of a sum that is added to and not read
// otherwise.
func (x *Index) addInPlace() error {
	if !x.Ranged {
		return nil
	}
	for _, n := range stop.Each(x.Stop, x.Graph.Nodes) {
		at := AliasOf(n)
		if n.Phase != graph.Update || at == nil {
			continue
		}
		for k, out := range n.Out {
			if at[k] >= 0 && x.Variable[out.ID] == nil {
				x.Variable[out.ID] = x.replaced(n, n.In[at[k]], out)
			}
		}
	}
	return nil
}

// replaced is the variable or sum whose place out may take, which n makes of v; nil
// if there is none.
func (x *Index) replaced(n *graph.Node, v, out *graph.Value) *graph.Value {
	_, ranged := n.Op.(ops.Ranged)
	old := x.Identity(v)
	switch {
	case ranged:
		return old
	case old.Kind == graph.Variable, old.Kind == graph.Computed && (old.Node.Phase == graph.Update || len(x.Accums[old.ID]) > 0):
		return nil
	case Scalar(v), !v.Meta.Equal(out.Meta), len(x.Readers[v.ID]) > 1, x.Output[v.ID], x.Output[out.ID]:
		return nil
	}
	return old
}

// checkPhases refuses reads that have no single instance to read, or that go
// back in time.
func (x *Index) checkPhases() error {
	for _, n := range stop.Each(x.Stop, x.Graph.Nodes) {
		for _, v := range n.In {
			switch {
			case v.Kind == graph.Computed && v.Node.Phase > n.Phase:
				return fmt.Errorf("%w: %v in the %v reads %s, which the %v computes later", ErrGraph, n, n.Phase, v.Name, v.Node.Phase)
			case v.Kind == graph.Summed && n.Phase != graph.Update:
				return fmt.Errorf("%w: %v reads the sum %s before it is complete; read it in the Update phase", ErrGraph, n, v.Name)
			case v.Kind == graph.Summed && x.Part[v.ID] == nil:
				return fmt.Errorf("%w: %v reads the sum %s, to which nothing is added; make it with Builder.Accumulate", ErrGraph, n, v.Name)
			case n.Phase == graph.Update && PerMicrobatch(v) && x.Microbatches > 1:
				return fmt.Errorf("%w: %v reads %s in the update, but each of the step's %d microbatches has its own; read the sum that Builder.Accumulate makes", ErrGraph, n, v.Name, x.Microbatches)
			}
		}
	}
	return nil
}

// orderUpdates sorts the update nodes. Each comes after the nodes whose results it
// reads. The node that makes a variable's new value comes after every other
// reader of the old one, since it writes in place.
func (x *Index) orderUpdates() error {
	o := &updateOrder{idx: x, done: make([]bool, x.IDs), open: make([]bool, x.IDs)}
	for _, n := range stop.Each(x.Stop, x.Graph.Nodes) {
		if n.Phase == graph.Update {
			if err := o.visit(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// updateOrder is a depth-first topological sort. Its tables are by Node.ID. [New] owns it; the index
// keeps the order.
type updateOrder struct {
	idx  *Index
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
	for _, d := range x.Before[n.ID] {
		if err := o.visit(d); err != nil {
			return err
		}
	}
	o.open[n.ID] = false
	o.done[n.ID] = true
	x.Position[n.ID] = len(x.Updates)
	x.Updates = append(x.Updates, n)
	return nil
}

// addOrder lists the nodes that must run before an update node: it reads their
// results, or overwrites a variable that they read.
func (x *Index) addOrder(n *graph.Node) {
	add := func(d *graph.Node) {
		switch {
		case d == n:
		case d.Phase == graph.Update:
			x.Before[n.ID] = append(x.Before[n.ID], d)
		default:
			x.Behind[n.ID] = append(x.Behind[n.ID], d)
		}
	}
	for _, v := range n.In {
		if v.Kind == graph.Computed {
			add(v.Node)
		}
	}
	for _, out := range n.Out {
		if v := x.Variable[out.ID]; v != nil {
			for _, r := range x.Readers[v.ID] {
				add(r)
			}
		}
	}
}
