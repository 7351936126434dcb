package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// gatedOps are the rows of the op table that are in this file.
func gatedOps() (all []graph.Op) {
	for fn := range gates {
		all = append(all, Gated{fn})
	}
	return all
}

// Gated is y = f(gate)*x from (gate, x) of one shape; Fn is swiglu, f being silu, geglu, f
// being gelu_erf, or geglu_tanh, f being gelu_tanh, and is the op's kind (Shazeer, "GLU
// Variants Improve Transformer", 2020). f(gate) is not kept for the gradient.
type Gated struct{ Fn string }

// gates has the function of each kind.
var gates = map[string]string{"swiglu": "silu", "geglu": "gelu_erf", "geglu_tanh": "gelu_tanh"}

// Kind is Fn.
func (o Gated) Kind() string { return o.Fn }

// Infer wants two equal shapes.
func (o Gated) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if gates[o.Fn] == "" {
		return nil, fmt.Errorf("no gate %q: use %s", o.Fn, strings.Join(slices.Sorted(maps.Keys(gates)), ", "))
	}
	return sameShapes(in)
}

// Grad is made of the function and of its gradient, which go with the products before and
// behind them.
func (o Gated) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	f, gate := gates[o.Fn], n.In[0]
	return []*graph.Value{
		b.One(UnaryGrad{f}, gate, Mul(b, dy[0], n.In[1])),
		Mul(b, dy[0], b.One(Unary{f}, gate)),
	}
}

// Cost is the function's, and a product.
func (o Gated) Cost(in, out []shape.Meta) graph.Cost {
	return perElem(unaries[gates[o.Fn]].flops+1, out[0].Elems(), in, out)
}

// Alias lets y take over x's memory.
func (o Gated) Alias() []int { return []int{1} }

// GatedOf is the [Gated] of two values.
func GatedOf(b *graph.Builder, fn string, gate, x *graph.Value) *graph.Value {
	return b.One(Gated{fn}, gate, x)
}
