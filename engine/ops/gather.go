package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// gatherOps are the rows of the op table that are in this file.
var gatherOps = []graph.Op{Gather{}, ScatterAdd{}}

// Gather takes rows of a table: (table f32 [V,D], ids i32 [...]) to [...,D]. A table
// that is stored in bf16 or i8b has the same numbers as f32, and no gradient. An id
// outside [0,V) fails at run time, naming it.
type Gather struct{}

// Kind is "gather".
func (o Gather) Kind() string { return "gather" }

// Infer appends the table's width to the dimensions of ids.
func (o Gather) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[0].DType != shape.Float32 && !in[0].DType.Stored() || in[0].Shape.Rank() != 2 {
		return nil, fmt.Errorf("table is %v, expected f32 [rows, width]", in[0])
	}
	if err := isInt("ids", in[1]); err != nil {
		return nil, err
	}
	return one(f32(append(in[1].Shape.Clone(), in[0].Shape[1]))), nil
}

// Grad is [ScatterAdd] into the table; nothing flows to the ids.
func (o Gather) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	if n.In[0].Meta.DType.Stored() {
		return noGrad(n)
	}
	return []*graph.Value{b.One(ScatterAdd{n.In[0].Meta.Shape[0]}, n.In[1], dy[0]), nil}
}

// Cost counts the rows that are copied, not the rest of the table.
func (o Gather) Cost(in, out []shape.Meta) graph.Cost {
	return graph.Cost{Flops: 1, Bytes: in[1].Bytes() + 2*out[0].Bytes()}
}

// ScatterAdd adds rows into zeros [Rows,D]: from (ids i32 [...], dy [...,D]),
// in the order of ids, so that the sum has one order.
type ScatterAdd struct{ Rows int }

// Kind is "scatter_add".
func (o ScatterAdd) Kind() string { return "scatter_add" }

// Infer checks ids against dy.
func (o ScatterAdd) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := isInt("ids", in[0]); err != nil {
		return nil, err
	}
	if err := isFloat("dy", in[1], 1); err != nil {
		return nil, err
	}
	if !lead(in[1].Shape).Equal(in[0].Shape) {
		return nil, fmt.Errorf("ids are %v, dy %v expects %v", in[0], in[1], lead(in[1].Shape))
	}
	return one(shape.F32(o.Rows, in[1].Shape.Dim(-1))), nil
}

// Grad fails: see noSecond.
func (o ScatterAdd) Grad(b *graph.Builder, n *graph.Node, _ []*graph.Value) []*graph.Value {
	return noSecond(b, n)
}

// Cost is an addition per element of dy.
func (o ScatterAdd) Cost(in, out []shape.Meta) graph.Cost { return perElem(1, in[1].Elems(), in, out) }

// EmbeddingOf takes the rows of table that ids select.
func EmbeddingOf(b *graph.Builder, table, ids *graph.Value) *graph.Value {
	return b.One(Gather{}, table, ids)
}
