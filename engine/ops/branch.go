package ops

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// Cond chooses by the number p, an f32[]: it returns the values of then if p is not 0, and
// the values of otherwise if it is. Both must return equally many values, of equal metadata.
//
// Devices read p in their own memory, and skip what the branch that is not chosen would
// compute, forward and backward. Nothing of it gets out: neither a value nor a gradient, NaN
// and Inf included. What a branch computes that something outside reads in another way, such
// as an output of the graph, is computed in any case.
func Cond(b *graph.Builder, p *graph.Value, then, otherwise func(b *graph.Builder) []*graph.Value) []*graph.Value {
	if p.Meta.Elems() != 1 {
		b.Fail(fmt.Errorf("%w: cond: the predicate is %v, expected one number: choose element by element with SelectOf", graph.ErrShape, p.Meta))
	}
	p = ReshapeTo(b, p)
	var x, y []*graph.Value
	branch(b, SelectGrad{}, p, func() { x = then(b) })
	branch(b, SelectGrad{Else: true}, p, func() { y = otherwise(b) })
	if b.Err() == nil {
		b.Fail(sameBranches(x, y))
	}
	if b.Err() != nil {
		return b.Apply(Select{}) // harmless values
	}
	chosen := make([]*graph.Value, len(x))
	for i := range x {
		chosen[i] = SelectOf(b, p, x[i], y[i])
	}
	return chosen
}

// sameBranches checks the values of a conditional's branches.
func sameBranches(x, y []*graph.Value) error {
	if len(x) != len(y) {
		return fmt.Errorf("%w: cond: the branches return %d and %d values, expected as many", graph.ErrShape, len(x), len(y))
	}
	for i := range x {
		if x[i] == nil || y[i] == nil || !x[i].Meta.Equal(y[i].Meta) {
			return fmt.Errorf("%w: cond: the branches return %v and %v as value %d, expected the same metadata", graph.ErrShape, metaText(x[i]), metaText(y[i]), i)
		}
	}
	return nil
}

// metaText is a value's metadata in words.
func metaText(v *graph.Value) string {
	if v == nil {
		return "nil"
	}
	return v.Meta.String()
}

// branch appends a branch, whose gradients are guarded by p.
func branch(b *graph.Builder, op SelectGrad, p *graph.Value, body func()) {
	guard := sharedSum(func(b *graph.Builder, d *graph.Value) *graph.Value {
		return b.One(op, Broadcast(b, p, d.Meta.Shape), d)
	})
	b.Branch(func(v *graph.Value) *graph.Value { return standIn(b, v, guard) }, body)
}

// While repeats body, from the carry given on, while the number that test makes of the
// carry, an f32[], is not 0, but at most bound times. The bound is at most [MaxIterations].
// It returns the last carry.
//
// The graph has all iterations. Devices read the number in their own memory: where it is 0
// the carry stays as it is, and body is skipped, as in [Cond]. The test of each iteration is
// computed, and so is the gradient of a parameter over the rows of all.
func While(b *graph.Builder, bound int, carry []*graph.Value, test func(b *graph.Builder, carry []*graph.Value) *graph.Value,
	body func(b *graph.Builder, carry []*graph.Value) []*graph.Value) []*graph.Value {
	if err := iterations("while", bound); err != nil {
		b.Fail(err)
		return carry
	}
	last, _ := Scan(b, carry, nil, ScanOptions{Steps: bound}, func(b *graph.Builder, carry, _ []*graph.Value) (next, _ []*graph.Value) {
		return Cond(b, test(b, carry),
			func(b *graph.Builder) []*graph.Value { return body(b, carry) },
			func(*graph.Builder) []*graph.Value { return carry }), nil
	})
	return last
}
