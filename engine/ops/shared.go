package ops

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// sharedSum sums the gradients of a value from outside that many nodes of a region read.
// Where they are products over rows, aᵀ·d, they become one product over the rows of all.
// The others are added as they are found, so that two of them are in memory at once.
//
// Gradients are guarded by when: they are 0 where it is 0, whatever the region computed.
// Nil guards nothing.
func sharedSum(when func(b *graph.Builder, d *graph.Value) *graph.Value) graph.GradientSum {
	guard := func(b *graph.Builder, d *graph.Value) *graph.Value {
		if when == nil {
			return d
		}
		if op, ok := rowsProduct(d); ok { // the factors are smaller, and it stays a product
			return b.One(op, when(b, d.Node.In[0]), when(b, d.Node.In[1]))
		}
		return when(b, d)
	}
	return graph.GradientSum{
		Join: joinShared,
		Total: func(b *graph.Builder, parts []*graph.Value) *graph.Value {
			guarded := make([]*graph.Value, len(parts))
			for i, d := range parts {
				guarded[i] = guard(b, d)
			}
			return totalShared(b, guarded)
		},
	}
}

// rowsProduct is the op of a product aᵀ·d of two matrices, which sums over their rows.
func rowsProduct(d *graph.Value) (MatMul, bool) {
	if d.Node == nil {
		return MatMul{}, false
	}
	op, ok := d.Node.Op.(MatMul)
	return op, ok && op.TransA && !op.TransB && d.Node.In[0].Meta.Shape.Rank() == 2
}

// joinShared keeps products apart, and adds what is none.
func joinShared(b *graph.Builder, parts []*graph.Value, d *graph.Value) []*graph.Value {
	if _, ok := rowsProduct(d); ok {
		return append(parts, d)
	}
	for i, p := range parts {
		if _, ok := rowsProduct(p); !ok {
			parts[i] = Add(b, p, d)
			return parts
		}
	}
	return append(parts, d)
}

// totalShared adds up gradients. Products come in reverse, from the last one to the first.
func totalShared(b *graph.Builder, parts []*graph.Value) (total *graph.Value) {
	add := func(d *graph.Value) {
		if total != nil {
			d = Add(b, total, d)
		}
		total = d
	}
	products := map[MatMul][]*graph.Value{}
	var order []MatMul
	for _, d := range parts {
		op, ok := rowsProduct(d)
		if !ok {
			add(d)
			continue
		}
		if products[op] == nil {
			order = append(order, op)
		}
		products[op] = append(products[op], d)
	}
	for _, op := range order {
		add(oneProduct(b, op, products[op]))
	}
	return total
}

// oneProduct is the sum of products over rows: a product over the rows of all, the first
// ones first.
func oneProduct(b *graph.Builder, op MatMul, products []*graph.Value) *graph.Value {
	if len(products) == 1 {
		return products[0]
	}
	var left, right []*graph.Value
	for _, d := range slices.Backward(products) {
		left, right = append(left, d.Node.In[0]), append(right, d.Node.In[1])
	}
	return b.One(op, ConcatOf(b, 0, left...), ConcatOf(b, 0, right...))
}
