package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/rng"
	"github.com/berth-ml/berth/engine/shape"
)

// randomOps are the rows of the op table that are in this file.
var randomOps = []graph.Op{Dropout{}}

// Dropout zeroes elements of x with probability P and scales the others by
// 1/(1-P), from (x, step i32[], base i32[]). Dimension 0 of x counts samples;
// base is the index in the global batch of the microbatch's first. Which
// elements go is a function of Seed, ID, step and the element's index in the
// global batch alone (Philox, see package rng), so it is the same however the
// batch is cut, and the op is its own gradient.
//
// Element j of sample n has index i = (base+n)*size + j, size being the
// elements of a sample. It is kept if [Kept] is true for word i%4 of
// Key().At(i/4, step).
type Dropout struct {
	P        float64
	Seed, ID uint64
}

// Kind is "dropout".
func (o Dropout) Kind() string { return "dropout" }

// Key is the op's stream of random numbers.
func (o Dropout) Key() rng.Key { return rng.NewKey(o.Seed, o.ID) }

// Infer keeps the input's metadata.
func (o Dropout) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := arity(in, 3); err != nil {
		return nil, err
	}
	if err := probability(o.P); err != nil {
		return nil, err
	}
	if err := isFloat("input", in[0], 1); err != nil {
		return nil, err
	}
	return one(in[0]), drawn(in[1], in[2])
}

// Grad drops the same elements of dy.
func (o Dropout) Grad(b *graph.Builder, n *graph.Node, dy []*graph.Value) []*graph.Value {
	return []*graph.Value{b.One(o, dy[0], n.In[1], n.In[2]), nil, nil}
}

// Cost counts Philox as about ten operations per number.
func (o Dropout) Cost(in, out []shape.Meta) graph.Cost { return perElem(12, in[0].Elems(), in, out) }

// Kept tells whether dropout of rate p keeps an element that drew this word.
func Kept(p float64, word uint32) bool { return rng.Float32(word) >= float32(p) }

// probability checks a dropout rate.
func probability(p float64) error {
	if p < 0 || p >= 1 {
		return fmt.Errorf("dropout of %v is outside [0,1)", p)
	}
	return nil
}

// drawn checks the two scalars on which random numbers depend.
func drawn(step, base shape.Meta) error {
	if err := expect("step", step, shape.I32()); err != nil {
		return err
	}
	return expect("base", base, shape.I32())
}
