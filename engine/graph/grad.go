package graph

import (
	"github.com/berth-ml/berth/internal/stop"
)

// Gradients appends the backward pass of loss. seed is the gradient of loss, of
// the same shape. For each variable in wrt it returns the parts of the gradient:
// one per use, in graph order. The parts stay apart so that those of a variable
// with two uses (tied weights) are summed in the same order however the graph is
// cut into stages. add is the op that adds two gradients of an intermediate
// value.
//
// This is reverse-mode accumulation (Griewank and Walther, "Evaluating
// Derivatives", 2008, §3.2): it visits nodes last to first.
func (b *Builder) Gradients(loss, seed *Value, wrt []*Value, add Op) map[*Value][]*Value {
	grads := map[*Value][]*Value{}
	if b.err != nil {
		return grads
	}
	d := &differentiator{Builder: b, add: add, needed: b.dependsOn(wrt), parts: make([][]*Value, len(b.g.Values))}
	d.parts[loss.ID] = []*Value{seed}
	defer b.InPhase(Backward)()
	nodes := b.g.Nodes
	for i := len(nodes) - 1; i >= 0 && !b.stopped(); i-- {
		d.differentiate(nodes[i])
	}
	for _, v := range wrt {
		p := d.parts[v.ID]
		for l, r := 0, len(p)-1; l < r; l, r = l+1, r-1 {
			p[l], p[r] = p[r], p[l] // from last to first into graph order
		}
		grads[v] = p
	}
	return grads
}

// differentiator appends a backward pass. Its tables are by the ID of a value
// that was there before.
type differentiator struct {
	*Builder
	add    Op         // adds two gradients of an intermediate value
	needed []bool     // it depends on what gradients are asked for
	parts  [][]*Value // the gradients found so far, to be summed
}

// differentiate asks n's op for the gradients of its inputs, and adds each to the
// parts of an input that needs it.
func (b *differentiator) differentiate(n *Node) {
	defer b.In(n.Layer)()
	old := b.of
	b.of = n
	defer func() { b.of = old }()
	dy, any := make([]*Value, len(n.Out)), false
	for i, out := range n.Out {
		if len(b.parts[out.ID]) > 0 && b.needed[out.ID] {
			dy[i], any = b.total(b.parts[out.ID]), true
		}
	}
	if !any {
		return
	}
	var dx []*Value
	b.Fail(guard(n.Op, "Grad", func() { dx = n.Op.Grad(b.Builder, n, dy) }))
	if b.err != nil {
		return
	}
	if len(dx) != len(n.In) {
		b.Fail(wrong(n.Op, "Grad", "%d values for %d inputs: give one for each", len(dx), len(n.In)))
		return
	}
	for i, in := range n.In {
		if dx[i] == nil || !b.needed[in.ID] {
			continue
		}
		if !dx[i].Meta.Equal(in.Meta) {
			b.Fail(wrong(n.Op, "Grad", "%v for input %d, which is %v: give the input's shape", dx[i].Meta, i, in.Meta))
			return
		}
		b.parts[in.ID] = append(b.parts[in.ID], dx[i])
	}
}

// total sums gradients in the order in which they were found.
func (b *differentiator) total(parts []*Value) *Value {
	sum := parts[0]
	for _, p := range parts[1:] {
		sum = b.One(b.add, sum, p)
	}
	return sum
}

// dependsOn marks, by ID, the roots and all values computed from them.
func (b *Builder) dependsOn(roots []*Value) []bool {
	m := make([]bool, len(b.g.Values))
	for _, r := range roots {
		m[r.ID] = true
	}
	for _, n := range stop.Each(b.stop, b.g.Nodes) {
		for _, in := range n.In {
			if m[in.ID] {
				for _, out := range n.Out {
					m[out.ID] = true
				}
				break
			}
		}
	}
	return m
}
