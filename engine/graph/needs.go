package graph

import (
	"cmp"
	"slices"
)

// Chooser is implemented by ops that read some of their inputs only where a number says so.
// The op decides that number by number, so that nothing of what it does not read gets into
// its outputs, NaN and Inf included.
type Chooser interface {
	Op
	// Chooses says, for each input, at which numbers of input 0 the op reads it.
	Chooses() []Choice
}

// Choice is the numbers at which an input is read.
type Choice uint8

// The choices. A NaN is not 0.
const (
	Always Choice = iota
	WhereNot0
	Where0
)

// Repeater is implemented by ops that give the numbers of their one input another shape.
// Where the input is one number, so is each number of the output.
type Repeater interface {
	Op
	Repeats()
}

// Guard is a condition that a device reads in its own memory: that the first number of Value
// is not 0 or, with Else, that it is 0.
type Guard struct {
	Value *Value
	Else  bool
}

// mostGuards bounds the guards of a node: each is an argument of its kernel. Further ones
// count as met.
const mostGuards = 4

// Needs says when the values of a graph are needed. A conditional node whose values go only
// where choosers do not read them, since a guard is not met, need not run. Devices skip it
// then, and its values are whatever was in their memory.
//
// A node that runs has inputs that were computed, for two reasons. Whatever reads a value has
// all guards of the node that makes it, or is a chooser that leaves it unread where one is not
// met. And a guard's number is a value that the node reads: the node that makes it has no
// guards but the other ones of the reader. So where all guards of a node are met, all their
// numbers were computed.
type Needs struct {
	graph *Graph
	nodes [][]Guard // by index in Graph.Nodes; nil if nothing is skipped
	of    *Table[need]
}

// need is when a value is needed, or the values of a node: where all terms hold. Before a
// reader is known, it is not read.
type need struct {
	read  bool
	terms []term
}

// always is the need of what is needed in any case.
var always = need{read: true}

// term is a guard by its root: see rootOf.
type term struct {
	root *Value
	els  bool
	at   int // see place
}

// and is needed where x or y may be: where the terms hold that both have.
func (x need) and(y need) need {
	switch {
	case !x.read:
		return y
	case !y.read || len(x.terms) == 0:
		return x
	}
	return x.keep(func(t term) bool { return slices.Contains(y.terms, t) })
}

// keep is x without the terms that f refuses.
func (x need) keep(f func(term) bool) need {
	kept := need{read: x.read}
	for _, t := range x.terms {
		if f(t) {
			kept.terms = append(kept.terms, t)
		}
	}
	return kept
}

// with is x where t holds too.
func (x need) with(t term) need {
	at, found := slices.BinarySearchFunc(x.terms, t, compareTerms)
	if !found {
		x.terms = slices.Insert(slices.Clone(x.terms), at, t)
	}
	return x
}

func compareTerms(a, b term) int {
	els := func(t term) int {
		if t.els {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.root.ID, b.root.ID), cmp.Compare(els(a), els(b)))
}

// place is where a guard's number is in a graph: the value that has it, and the index of the
// node that makes this value, -1 for an input.
type place struct {
	value *Value
	at    int
}

// NeedsOf finds when the nodes of g are needed, from its outputs to its inputs.
func NeedsOf(g *Graph) *Needs {
	x := &Needs{graph: g}
	if slices.ContainsFunc(g.Nodes, func(n *Node) bool { return n.Conditional }) {
		x.nodes = make([][]Guard, len(g.Nodes))
		x.find()
	}
	return x
}

// Guards are those of the node at an index of the graph's nodes.
func (x *Needs) Guards(node int) []Guard {
	if x.nodes == nil {
		return nil
	}
	return x.nodes[node]
}

// Any tells whether a node has guards.
func (x *Needs) Any() bool {
	return slices.ContainsFunc(x.nodes, func(gs []Guard) bool { return len(gs) > 0 })
}

// Inputs lists, per input of the graph, the guards without which the graph does not need it.
// They name the values that the numbers come from first, in whatever graph. read tells
// whether a node reads the input.
func Inputs(g *Graph) (guards [][]Guard, read []bool) {
	x := &Needs{graph: g, nodes: make([][]Guard, len(g.Nodes))}
	x.find()
	for _, v := range g.Inputs {
		of := x.of.At(v)
		read = append(read, of.read)
		guards = append(guards, nil)
		for _, t := range of.terms {
			guards[len(guards)-1] = append(guards[len(guards)-1], Guard{t.root, t.els})
		}
	}
	return guards, read
}

// rootOf is the value that the numbers of v come from, where ops only gave them other shapes,
// or computed them a second time.
func rootOf(v *Value) *Value {
	for v.Kind == Computed && v.Node != nil {
		if v.Node.repeats(v.Out) {
			v = v.Node.Of.Out[v.Out]
			continue
		}
		if _, ok := v.Node.Op.(Repeater); !ok {
			break
		}
		v = v.Node.In[0]
	}
	return v
}

// repeats tells whether output i of a node is that of the node that it is recomputed for. What joins or cuts parts for a
// recomputed node is marked as recomputed, too, and computes something else.
func (n *Node) repeats(i int) bool {
	return n.Recomputed && n.Of != nil && n.Part == nil && n.Of.Part == nil && OpString(n.Op) == OpString(n.Of.Op) &&
		len(n.Out) == len(n.Of.Out) && n.Out[i].Meta.Equal(n.Of.Out[i].Meta)
}

// places finds, for each root, the first value of the graph that has its number: among inputs,
// the smallest.
func (x *Needs) places() map[*Value]place {
	of := map[*Value]place{}
	for _, v := range x.graph.Inputs {
		r := rootOf(v)
		if v.Meta.Elems() == 0 {
			continue
		}
		if p, ok := of[r]; !ok || v.Meta.Elems() < p.value.Meta.Elems() {
			of[r] = place{v, -1}
		}
	}
	for i, n := range x.graph.Nodes {
		for _, v := range n.Out {
			r := rootOf(v)
			if _, ok := of[r]; !ok && v.Meta.Elems() > 0 {
				of[r] = place{v, i}
			}
		}
	}
	return of
}

// find goes over the nodes from the last to the first.
func (x *Needs) find() {
	g, known := x.graph, x.places()
	x.of = NewTable[need](g)
	reads := func(v *Value, where need) {
		of := x.of.At(v)
		*of = of.and(where)
	}
	for _, a := range g.Assigns {
		reads(a.New, always)
	}
	for _, a := range g.Accums {
		reads(a.Part, always)
	}
	for k, v := range g.Outputs {
		where := always
		if g.Needed != nil {
			for _, guard := range g.Needed[k] {
				if p, ok := known[rootOf(guard.Value)]; ok {
					where = where.with(term{rootOf(guard.Value), guard.Else, p.at})
				}
			}
		}
		reads(v, where)
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		where := x.whereNeeded(n, i)
		for _, t := range where.terms {
			v := known[t.root].value
			x.nodes[i] = append(x.nodes[i], Guard{v, t.els})
			reads(v, where.keep(func(o term) bool { return o.root != t.root }))
		}
		choices := choicesOf(n)
		for j, v := range n.In {
			where := where
			if j < len(choices) && choices[j] != Always {
				if r := rootOf(n.In[0]); r.Meta.Elems() == 1 {
					if p, ok := known[r]; ok {
						where = where.with(term{r, choices[j] == Where0, p.at})
					}
				}
			}
			reads(v, where)
		}
	}
}

// whereNeeded is when node i is needed, as far as it can be known before it runs.
func (x *Needs) whereNeeded(n *Node, i int) (where need) {
	if !n.Conditional {
		return always
	}
	for _, v := range n.Out {
		where = where.and(*x.of.At(v))
	}
	if !where.read {
		return always
	}
	where = where.keep(func(t term) bool { return t.at < i })
	where.terms = where.terms[:min(len(where.terms), mostGuards)]
	return where
}

// choicesOf are the choices of a node's op; nil if it reads all inputs.
func choicesOf(n *Node) []Choice {
	if c, ok := n.Op.(Chooser); ok {
		return c.Chooses()
	}
	return nil
}
