package graph

import (
	"fmt"
	"strings"
)

// Text lists the graph for people: inputs, variables, one line per node in order
// and by phase, then sums, assignments and outputs.
func (g *Graph) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s: %d nodes\n", g.Name, len(g.Nodes))
	for _, v := range g.Inputs {
		fmt.Fprintf(&b, "input %v\n", v)
	}
	for _, v := range g.Vars {
		fmt.Fprintf(&b, "%v %v\n", v.Role, v)
	}
	for i, n := range g.Nodes {
		if i == 0 || n.Phase != g.Nodes[i-1].Phase {
			fmt.Fprintf(&b, "%v:\n", n.Phase)
		}
		fmt.Fprintf(&b, "  %s = %s(%s)", typed(n.Out), OpString(n.Op), names(n.In))
		if n.Layer != nil {
			fmt.Fprintf(&b, "  # %v", n.Layer)
		}
		b.WriteByte('\n')
	}
	for _, a := range g.Accums {
		fmt.Fprintf(&b, "sum %v = %s over microbatches of %s\n", a.Sum, a.Add.Kind(), a.Part.Name)
	}
	for _, a := range g.Assigns {
		fmt.Fprintf(&b, "assign %s <- %s\n", a.Var.Name, a.New.Name)
	}
	for _, v := range g.Outputs {
		fmt.Fprintf(&b, "output %v\n", v)
	}
	return b.String()
}

// typed lists values with their metadata.
func typed(vs []*Value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.String()
	}
	return strings.Join(s, ", ")
}

var phaseColours = [...]string{Forward: "lightblue", Backward: "mistyrose", Update: "palegreen"}

// DOT draws the graph for Graphviz: nodes as boxes coloured by phase, inputs
// and variables as ellipses, sums over microbatches and assignments as dashed
// edges.
func (g *Graph) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %q {\n  node [fontname=monospace];\n", g.Name)
	d := drawing{&b, map[*Value]string{}}
	for _, v := range g.Inputs {
		d.leaf(v, "white")
	}
	for _, v := range g.Vars {
		d.leaf(v, "lightyellow")
	}
	for _, a := range g.Accums {
		d.leaf(a.Sum, "lightgrey")
	}
	for i, n := range g.Nodes {
		d.node(i, n)
	}
	for _, a := range g.Accums {
		d.edge(a.Part, d.at[a.Sum], " style=dashed")
	}
	for _, a := range g.Assigns {
		d.edge(a.New, d.at[a.Var], " style=dashed")
	}
	for i, v := range g.Outputs {
		id := fmt.Sprintf("out%d", i)
		fmt.Fprintf(&b, "  %s [label=\"output\" shape=plaintext];\n", id)
		d.edge(v, id, "")
	}
	b.WriteString("}\n")
	return b.String()
}

// drawing is the text of a DOT graph.
type drawing struct {
	b  *strings.Builder
	at map[*Value]string // the box or ellipse from which each value comes
}

// leaf draws a value that no node produces, once.
func (d drawing) leaf(v *Value, colour string) string {
	id, known := d.at[v]
	if !known {
		id = fmt.Sprintf("v%d", len(d.at))
		d.at[v] = id
		fmt.Fprintf(d.b, "  %s [label=%q shape=ellipse style=filled fillcolor=%s];\n", id, v.Name+"\n"+v.Meta.String(), colour)
	}
	return id
}

// node draws a box, with edges from its inputs.
func (d drawing) node(i int, n *Node) {
	id := fmt.Sprintf("n%d", i)
	label := n.Op.Kind()
	if n.Layer != nil {
		label += "\n" + n.Layer.Name
	}
	fmt.Fprintf(d.b, "  %s [label=%q shape=box style=filled fillcolor=%s tooltip=%q];\n", id, label, phaseColours[n.Phase], OpString(n.Op))
	for _, in := range n.In {
		d.edge(in, id, "")
	}
	for _, out := range n.Out {
		d.at[out] = id
	}
}

// edge joins a value's origin to a node. Values that were not declared, such as
// the sums that a segment reads, are drawn when they are met.
func (d drawing) edge(v *Value, to, style string) {
	from := d.leaf(v, "lightgrey")
	fmt.Fprintf(d.b, "  %s -> %s [label=%q%s];\n", from, to, v.Meta.String(), style)
}
