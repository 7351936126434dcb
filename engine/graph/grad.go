package graph

import "fmt"

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
	needed := dependsOn(b.g.Nodes, wrt)
	parts := map[*Value][]*Value{loss: {seed}}
	defer b.InPhase(Backward)()
	nodes := b.g.Nodes
	for i := len(nodes) - 1; i >= 0 && b.err == nil; i-- {
		b.differentiate(nodes[i], needed, parts, add)
	}
	for _, v := range wrt {
		p := parts[v]
		for l, r := 0, len(p)-1; l < r; l, r = l+1, r-1 {
			p[l], p[r] = p[r], p[l] // from last to first into graph order
		}
		grads[v] = p
	}
	return grads
}

// differentiate asks n's op for the gradients of its inputs, and adds each to the
// parts of an input that needs it.
func (b *Builder) differentiate(n *Node, needed map[*Value]bool, parts map[*Value][]*Value, add Op) {
	defer b.In(n.Layer)()
	old := b.of
	b.of = n
	defer func() { b.of = old }()
	dy, any := make([]*Value, len(n.Out)), false
	for i, out := range n.Out {
		if len(parts[out]) > 0 && needed[out] {
			dy[i], any = b.total(parts[out], add), true
		}
	}
	if !any {
		return
	}
	dx := n.Op.Grad(b, n, dy)
	if b.err != nil {
		return
	}
	if len(dx) != len(n.In) {
		b.Fail(fmt.Errorf("BUG: gradient of %s has %d values for %d inputs", n.Op.Kind(), len(dx), len(n.In)))
		return
	}
	for i, in := range n.In {
		if dx[i] == nil || !needed[in] {
			continue
		}
		if !dx[i].Meta.Equal(in.Meta) {
			b.Fail(fmt.Errorf("BUG: gradient of %s for input %d is %v, the input is %v", n.Op.Kind(), i, dx[i].Meta, in.Meta))
			return
		}
		parts[in] = append(parts[in], dx[i])
	}
}

// total sums gradients in the order in which they were found.
func (b *Builder) total(parts []*Value, add Op) *Value {
	sum := parts[0]
	for _, p := range parts[1:] {
		sum = b.One(add, sum, p)
	}
	return sum
}

// dependsOn marks the roots and all values computed from them.
func dependsOn(nodes []*Node, roots []*Value) map[*Value]bool {
	m := map[*Value]bool{}
	for _, r := range roots {
		m[r] = true
	}
	for _, n := range nodes {
		for _, in := range n.In {
			if m[in] {
				for _, out := range n.Out {
					m[out] = true
				}
				break
			}
		}
	}
	return m
}
