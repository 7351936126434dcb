package gen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// Node writes the kernels of a node alone.
func Node(n *graph.Node) (calls []Call, scratch int64, err error) { return Cluster(fuse.Single(n)) }

// Cluster writes the kernels of a cluster, in the order in which they run. scratch is
// the bytes that they need.
//
// Each result has the bits that it has when the nodes run alone.
func Cluster(c *fuse.Cluster) (calls []Call, scratch int64, err error) {
	w := &writer{when: c.When}
	switch {
	case len(c.Nodes) == 1:
		err = w.alone(c)
	case c.Batch:
		err = w.sideBySide(c)
	case c.Lockstep:
		err = w.oneByOne(c, c.Nodes)
	default:
		if err = w.fused(c); err == nil {
			err = w.oneByOne(c, c.Sums)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return w.calls, w.scratch, nil
}

// alone writes the kernels of a cluster of one node.
func (w *writer) alone(c *fuse.Cluster) error {
	w.node, w.ins, w.outs = c.Nodes[0], nil, nil
	for i := range c.In {
		w.ins = append(w.ins, Arg{Role: In, Index: i})
	}
	for o := range c.Out {
		w.outs = append(w.outs, Arg{Role: Out, Index: o})
	}
	return w.write()
}

// write writes the kernels of the node.
func (w *writer) write() error {
	t, ok := templates[w.node.Op.Kind()]
	if !ok {
		return unsupported(w.node.Op)
	}
	return t(w, w.node.Op)
}

// begin makes the node at a position of a cluster the one whose kernels are written.
func (w *writer) begin(c *fuse.Cluster, at int) {
	w.node, w.ins, w.outs = c.Nodes[at], nil, nil
	for _, v := range c.Reads[at] {
		w.ins = append(w.ins, whereIs(c, v))
	}
	for _, v := range w.node.Out {
		w.outs = append(w.outs, whereIs(c, v))
	}
}

// oneByOne writes the kernels of some nodes of a cluster, whose operands are all in
// memory.
func (w *writer) oneByOne(c *fuse.Cluster, nodes []*graph.Node) error {
	scratch := w.scratch
	for _, n := range nodes {
		w.begin(c, slices.Index(c.Nodes, n))
		if err := w.write(); err != nil {
			return err
		}
		scratch = max(scratch, w.scratch)
	}
	w.scratch = scratch
	return nil
}

// fused writes the kernels of a head that is followed by elementwise nodes, or one
// kernel of elementwise nodes.
func (w *writer) fused(c *fuse.Cluster) error {
	then := newChain(c)
	for at, n := range c.Nodes {
		if n == c.Head || slices.Contains(c.Sums, n) {
			continue
		}
		if err := then.add(c, at); err != nil {
			return err
		}
	}
	then.finish(c)
	if c.Head == nil {
		w.node = c.Nodes[0]
		w.items(c.Frame.Elems, then.params, then.text.String())
		return nil
	}
	w.begin(c, slices.Index(c.Nodes, c.Head))
	w.then = &tail{then.params, then.text.String()}
	defer func() { w.then = nil }()
	return w.write()
}

// mostSideBySide is the most loops that a kernel runs; see mostArgs.
const mostSideBySide = 8

// sideBySide writes kernels for the nodes of a batch, each for several nodes.
func (w *writer) sideBySide(c *fuse.Cluster) error {
	var loops []loop
	w.batch = &loops
	err := w.oneByOne(c, c.Nodes)
	w.batch = nil
	if err != nil {
		return err
	}
	for len(loops) > 0 {
		first := loops[0].text()
		same := slices.DeleteFunc(slices.Clone(loops), func(l loop) bool { return l.text() != first })
		loops = slices.DeleteFunc(loops, func(l loop) bool { return l.text() == first })
		shared := sharedParams(same)
		for some := range slices.Chunk(same, mostSideBySide) {
			w.together(some, shared)
		}
	}
	return nil
}

// text is equal for loops that one kernel can run.
func (l loop) text() string {
	var b strings.Builder
	for _, p := range l.params {
		b.WriteString(p.c + ";")
	}
	return b.String() + l.body
}

// sharedParams tells which parameters have the same argument in all loops.
func sharedParams(loops []loop) []bool {
	shared := make([]bool, len(loops[0].params))
	for i, p := range loops[0].params {
		shared[i] = !slices.ContainsFunc(loops, func(l loop) bool { return l.params[i].arg != p.arg })
	}
	return shared
}

// together writes a kernel for loops with the same text: a work item finds its loop
// from the ends of the loops, counted in work items of whole groups.
func (w *writer) together(loops []loop, shared []bool) {
	w.node = loops[0].node
	var params, own []param
	var declare, choose strings.Builder
	for i, p := range loops[0].params {
		if shared[i] {
			params = append(params, p)
			continue
		}
		own = append(own, p)
		fmt.Fprintf(&declare, "\t%s = %s_0;\n", p.c, p.name())
	}
	end := 0
	for k := range mostSideBySide {
		n, from := 0, loops[0].params // no work item comes to loops that are not there
		if k < len(loops) {
			n, from = loops[k].n, loops[k].params
		}
		for i, p := range from {
			if !shared[i] {
				p.c += fmt.Sprint("_", k)
				params = append(params, p)
			}
		}
		if k > 0 {
			choose.WriteString(choice(own, k))
		}
		end += up(n, GroupLanes)
		params = append(params, number(fmt.Sprint("n_", k), n), number(fmt.Sprint("end_", k), end))
	}
	w.add(Call{Items: end}, params, "\ti64 i = ITEM, n = n_0, first = 0;\n"+declare.String()+choose.String()+"\ti -= first;\n\tif (i >= n || STATUS[0]) return;\n"+loops[0].body)
}

// choice is the text that takes the parameters of loop k, for work items from its first on.
func choice(own []param, k int) string {
	text := fmt.Sprintf("\tif (i >= end_%d) { first = end_%[1]d; n = n_%d;", k-1, k)
	for _, p := range own {
		text += fmt.Sprintf(" %s = %[1]s_%d;", p.name(), k)
	}
	return text + " }\n"
}

// name is the parameter's name.
func (p param) name() string { return p.c[strings.LastIndexByte(p.c, ' ')+1:] }
