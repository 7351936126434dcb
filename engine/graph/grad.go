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
		n, of := nodes[i], nodes[i]
		if w, ok := b.wholes[i]; ok {
			n, i = w.node, w.first
		}
		d.differentiate(n, of)
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
// parts of an input that needs it. of is n, or the last node of the composite that n is.
func (b *differentiator) differentiate(n, of *Node) {
	defer b.In(n.Layer)()
	old := b.of
	b.of = of
	defer func() { b.of = old }()
	dy, any := make([]*Value, len(n.Out)), false
	for i, out := range n.Out {
		if len(b.parts[out.ID]) > 0 && b.needed[out.ID] {
			dy[i], any = b.total(out, b.parts[out.ID]), true
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
		b.found(in, dx[i])
	}
}

// found adds a gradient of v to its parts.
func (b *differentiator) found(v, part *Value) {
	if sum, ok := b.sums[v]; ok && sum.Join != nil {
		b.parts[v.ID] = sum.Join(b.Builder, b.parts[v.ID], part)
		return
	}
	b.parts[v.ID] = append(b.parts[v.ID], part)
}

// total sums the gradients of v: as [Builder.SumGradients] says, or in the order in which
// they were found.
func (b *differentiator) total(v *Value, parts []*Value) *Value {
	if sum, ok := b.sums[v]; ok {
		return sum.Total(b.Builder, parts)
	}
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
