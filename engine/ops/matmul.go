package ops

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// matmulOps are the rows of the op table that are in this file.
var matmulOps = []graph.Op{MatMul{}}

// MatMul is c [...,M,N] = a [...,M,K] b [...,K,N]. With TransA the last two
// dimensions of a are exchanged, with TransB those of b. Leading dimensions are a
// batch of products and must be equal. Without TransA, b may have just two
// dimensions: a's leading dimensions are then more rows of one product. Such a b
// may be stored in bf16 or i8b: it has the same numbers as f32, and no gradient. With
// BF16 each element of a and b is rounded to bfloat16 first ([RoundBF16]);
// products and sums are in float32 all the same.
type MatMul struct{ TransA, TransB, BF16 bool }

// Kind is "matmul".
func (o MatMul) Kind() string { return "matmul" }

// Dims are M, N and K for these inputs, without checks. M does not count the rows
// of the leading dimensions.
func (o MatMul) Dims(a, b shape.Shape) (m, n, k int) {
	m, k = a.Dim(-2), a.Dim(-1)
	if o.TransA {
		m, k = k, m
	}
	n = b.Dim(-1)
	if o.TransB {
		n = b.Dim(-2)
	}
	return m, n, k
}

// Infer checks the dimension that is summed over, and the leading ones.
func (o MatMul) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	checked := in
	if in[1].DType.Stored() && in[1].Shape.Rank() == 2 && !o.TransA {
		checked = in[:1]
	}
	if err := floats(checked, len(checked)); err != nil {
		return nil, err
	}
	a, b := in[0].Shape, in[1].Shape
	if a.Rank() < 2 || b.Rank() < 2 {
		return nil, fmt.Errorf("inputs are %v and %v, expected at least 2 dimensions each", a, b)
	}
	weight := b.Rank() == 2 && !o.TransA
	if !weight && !a[:a.Rank()-2].Equal(b[:b.Rank()-2]) {
		return nil, fmt.Errorf("inputs are %v and %v, expected the same leading dimensions", a, b)
	}
	m, n, k := o.Dims(a, b)
	kb := b.Dim(-2)
	if o.TransB {
		kb = b.Dim(-1)
	}
	if k != kb && weight {
		return nil, fmt.Errorf("input has %d features, weight expects %d", k, kb)
	}
	if k != kb {
		return nil, fmt.Errorf("inner dimensions differ: the left side %v has %d, the right side %v has %d", a, k, b, kb)
	}
	return one(f32(append(a[:a.Rank()-2].Clone(), m, n))), nil
}

// Grad is two products, rounded as this one, or one where b is stored. If a has more dimensions than the
// weight b, its rows are flattened, so that b's gradient is one product. A weight that is
// stored in bfloat16 or int8 is widened again.
func (o MatMul) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	x, w, d := n.In[0], n.In[1], dy[0]
	if w.Meta.DType.Stored() {
		return []*graph.Value{o.as(b, d, w, false, !o.TransB), nil}
	}
	if x.Meta.Shape.Rank() > w.Meta.Shape.Rank() {
		dx := o.as(b, d, again(b, w), false, !o.TransB)
		x = ReshapeTo(b, x, flatRows(x.Meta.Shape)...)
		d = ReshapeTo(b, d, flatRows(d.Meta.Shape)...)
		return []*graph.Value{dx, o.gradB(b, x, d)}
	}
	if o.TransA {
		return []*graph.Value{o.as(b, again(b, w), d, o.TransB, true), o.gradB(b, x, d)}
	}
	return []*graph.Value{o.as(b, d, again(b, w), false, !o.TransB), o.gradB(b, x, d)}
}

// gradB is op(x)ᵀ d, stored the way b is.
func (o MatMul) gradB(b *graph.Builder, x, d *graph.Value) *graph.Value {
	if o.TransB {
		return o.as(b, d, x, true, o.TransA)
	}
	return o.as(b, x, d, !o.TransA, false)
}

// as is a product of a and c in o's precision.
func (o MatMul) as(b *graph.Builder, a, c *graph.Value, transA, transB bool) *graph.Value {
	return b.One(MatMul{TransA: transA, TransB: transB, BF16: o.BF16}, a, c)
}

// flatRows is s as a matrix: all rows by the last dimension.
func flatRows(s shape.Shape) []int { return []int{lead(s).Elems(), s.Dim(-1)} }

// Cost is 2MNK per product.
func (o MatMul) Cost(in, out []shape.Meta) graph.Cost {
	_, _, k := o.Dims(in[0].Shape, in[1].Shape)
	return perElem(2*k, out[0].Elems(), in, out)
}

// MatMulOf is the product of a and c.
func MatMulOf(b *graph.Builder, a, c *graph.Value, transA, transB bool) *graph.Value {
	return b.One(MatMul{TransA: transA, TransB: transB}, a, c)
}

// RoundBF16 is x rounded to the nearest bfloat16, which has float32's exponent and
// 8 bits of precision; half-way between two, to the even one. NaN stays NaN.
// Numbers beyond the largest finite bfloat16 become infinite.
func RoundBF16(x float32) float32 {
	bits := math.Float32bits(x)
	if x != x {
		return math.Float32frombits((bits | 1<<22) &^ 0xffff)
	}
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}
