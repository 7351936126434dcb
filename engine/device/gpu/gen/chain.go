package gen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// chain is elementwise nodes as C, for element i of their frame. The number that the
// cluster's head made is h.
type chain struct {
	params []param
	text   strings.Builder
	names  map[*graph.Value]string // of numbers that are known
	loads  map[string]string       // names of numbers that were read, by the text that reads them
	memory map[Arg]string          // names of the cluster's inputs and outputs
	nodes  int
}

// newChain begins the chain of a cluster.
func newChain(c *fuse.Cluster) *chain {
	l := &chain{names: map[*graph.Value]string{}, loads: map[string]string{}, memory: map[Arg]string{}}
	if c.Head != nil {
		l.names[c.Head.Out[0]] = "h"
	}
	return l
}

// add adds the node at a position of a cluster.
func (l *chain) add(c *fuse.Cluster, at int) error {
	n := c.Nodes[at]
	f, ok := formulaOf(n)
	if !ok {
		return unsupported(n.Op)
	}
	reads := n.In
	if len(c.Nodes) > 1 {
		reads = c.Reads[at]
	}
	prefix := fmt.Sprintf("k%d", l.nodes)
	l.nodes++
	var operands strings.Builder
	for o, v := range reads {
		fmt.Fprintf(&operands, " %s %s = %s;", typeOf(v), "xyz"[o:o+1], l.operand(c, v, n.In[o].Meta.Shape, n.Out[0].Meta.Shape))
	}
	for _, p := range f.params {
		p.c = strings.ReplaceAll(p.c, "$", prefix)
		l.params = append(l.params, p)
	}
	name := "v" + prefix
	fmt.Fprintf(&l.text, "\tf32 %s; {%s %s = %s; }\n", name, operands.String(), name, strings.ReplaceAll(f.c, "$", prefix))
	l.names[n.Out[0]] = name
	return nil
}

// whereIs is a value's number among a cluster's inputs or outputs. Values that stay
// inside have the output -1.
func whereIs(c *fuse.Cluster, v *graph.Value) Arg {
	if j := slices.Index(c.In, v); j >= 0 {
		return Arg{Role: In, Index: j}
	}
	return Arg{Role: Out, Index: slices.Index(c.Out, v)}
}

// typeOf is the type of a value's elements in C.
func typeOf(v *graph.Value) string {
	if v.Meta.DType == shape.Int32 {
		return "i32"
	}
	return "f32"
}

// operand is the number that element i of a frame reads of v, which has shape s and
// stretches to shape to.
func (l *chain) operand(c *fuse.Cluster, v *graph.Value, s, to shape.Shape) string {
	if name, ok := l.names[v]; ok {
		return name
	}
	a := whereIs(c, v)
	name, ok := l.memory[a]
	if !ok {
		name = fmt.Sprintf("F%d", len(l.memory))
		l.memory[a] = name
		l.params = append(l.params, param{"GLOBAL const " + typeOf(v) + "* " + name, a, true})
	}
	params, index := stretched(fmt.Sprintf("s%d", len(l.loads)), s, to)
	key := fmt.Sprint(name, s, to)
	if number, ok := l.loads[key]; ok {
		return number
	}
	number := fmt.Sprintf("x%d", len(l.loads))
	l.loads[key] = number
	l.params = append(l.params, params...)
	fmt.Fprintf(&l.text, "\t%s %s = %s[%s];\n", typeOf(v), number, name, index)
	return number
}

// finish adds the statements that store the cluster's outputs, the head's first among
// them.
func (l *chain) finish(c *fuse.Cluster) {
	for o, v := range c.Out {
		if number, ok := l.names[v]; ok {
			name := fmt.Sprintf("O%d", o)
			l.params = append(l.params, param{"GLOBAL f32* " + name, Arg{Role: Out, Index: o}, true})
			fmt.Fprintf(&l.text, "\t%s[i] = %s;\n", name, number)
		}
	}
}

// stretched is the expression of the element that element i of a tensor of shape to
// reads of a tensor of shape s, and its parameters.
func stretched(prefix string, s, to shape.Shape) ([]param, string) {
	st, ok := fuse.StretchOf(s, to)
	n := to.Elems()
	if !ok {
		return position(prefix, to, strides(s, to))
	}
	var params []param
	c := "i"
	whole := int64(n) < 1<<32
	if whole {
		c = "(u32)i"
	}
	part := func(op, name string, v int) {
		params = append(params, number(prefix+name, v))
		if name = prefix + name; whole {
			name = "(u32)" + name
		}
		c += " " + op + " " + name
	}
	switch {
	case st.Full(n):
		return nil, "i"
	case st.Count <= 1:
		return nil, "0"
	}
	if st.Inner > 1 {
		part("/", "a", st.Inner)
	}
	if st.Inner*st.Count < n {
		part("%", "b", st.Count)
	}
	return params, c
}

// pointwise writes the kernel of an elementwise node alone.
func (w *writer) pointwise() error {
	c := fuse.Single(w.node)
	l := newChain(c)
	if err := l.add(c, 0); err != nil {
		return err
	}
	l.finish(c)
	w.items(w.outElems(0), l.params, l.text.String())
	return nil
}
