package ops

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// ScanOptions are the options of [Scan].
type ScanOptions struct {
	Steps   int  // iterations, where there are no xs, at most MaxIterations; 0 otherwise
	Reverse bool // from the last row of xs to the first
}

// ScanBody appends one iteration of a [Scan]. From the carry of the iteration before and
// a row of each of xs it makes the next carry, of the same metadata, and a row of each of
// ys. Values from outside, such as weights, are used as they are.
type ScanBody func(b *graph.Builder, carry, x []*graph.Value) (next, y []*graph.Value)

// Scan is a loop over the first axis of xs: body makes each carry from the one before,
// the first of which is given. It returns the last carry, and the rows that body makes,
// in the order of those of xs. With no Steps, the carry stays, and there are no ys.
//
// The iterations are appended one after the other, so the loop is differentiated,
// recomputed and spilled like the ops that it consists of. Products with a value from
// outside have one gradient for all iterations: one product over the rows of all.
func Scan(b *graph.Builder, carry, xs []*graph.Value, o ScanOptions, body ScanBody) (last, ys []*graph.Value) {
	steps, err := o.steps(xs)
	if err != nil {
		b.Fail(err)
		steps = 0
	}
	if l := b.Layer(); l != nil {
		l.Iterations += steps
	}
	var rows [][]*graph.Value // of ys, by iteration
	b.Region(func(v *graph.Value) *graph.Value { return standIn(b, v, sharedSum(nil)) }, func() {
		carry, rows = unroll(b, carry, xs, steps, o, body)
	})
	switch {
	case b.Err() != nil:
		return carry, b.Apply(Concat{}) // harmless values
	case len(rows) == 0:
		return carry, nil
	case o.Reverse:
		slices.Reverse(rows)
	}
	for i := range rows[0] {
		ys = append(ys, stack(b, rows, i))
	}
	return carry, ys
}

// steps is the number of iterations.
func (o ScanOptions) steps(xs []*graph.Value) (int, error) {
	for i, x := range xs {
		switch s := x.Meta.Shape; {
		case s.Rank() == 0:
			return 0, fmt.Errorf("%w: scan: input %d is %v: it needs an axis to go along", graph.ErrShape, i, x.Meta)
		case s[0] != xs[0].Meta.Shape[0]:
			return 0, fmt.Errorf("%w: scan: inputs 0 and %d are %v and %v, expected first axes of one length", graph.ErrShape, i, xs[0].Meta, x.Meta)
		case s[0] == 0:
			return 0, fmt.Errorf("%w: scan: input %d is %v: it needs at least one row", graph.ErrShape, i, x.Meta)
		case o.Steps != 0 && o.Steps != s[0]:
			return 0, fmt.Errorf("%w: scan: %d steps over an input %v: leave Steps out", graph.ErrShape, o.Steps, x.Meta)
		}
	}
	n := o.Steps
	if len(xs) > 0 {
		n = xs[0].Meta.Shape[0]
	}
	return n, iterations("scan", n)
}

// MaxIterations is the most iterations of a [Scan] or [While], each of which adds ops to the
// graph.
const MaxIterations = 1 << 14

// iterations says why a loop cannot have n iterations.
func iterations(loop string, n int) error {
	if n < 0 || n > MaxIterations {
		return graph.ShapeError(fmt.Errorf("%s: %d iterations: give 0 to %d", loop, n, MaxIterations))
	}
	return nil
}

// unroll appends the iterations of a scan.
func unroll(b *graph.Builder, carry, xs []*graph.Value, steps int, o ScanOptions, body ScanBody) (last []*graph.Value, rows [][]*graph.Value) {
	whole := make([]*graph.Value, len(xs))
	for i, x := range xs {
		whole[i] = standIn(b, x, graph.GradientSum{Total: sumRows})
	}
	for k := range steps {
		if b.Err() != nil {
			return carry, nil
		}
		if o.Reverse {
			k = steps - 1 - k
		}
		x := make([]*graph.Value, len(xs))
		for i := range xs {
			x[i] = rowOf(b, whole[i], k)
		}
		next, y := body(b, carry, x)
		if err := iterated(carry, next, y, rows); err != nil {
			b.Fail(err)
		}
		carry, rows = next, append(rows, y)
	}
	return carry, rows
}

// iterated checks the results of a scan's body. rows are those of the iterations before.
func iterated(carry, next, y []*graph.Value, rows [][]*graph.Value) error {
	if err := sameValues("carry", carry, next); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	return sameValues("row", rows[0], y)
}

// sameValues checks the results of an iteration against those of the one before.
func sameValues(what string, before, now []*graph.Value) error {
	if len(now) != len(before) {
		return fmt.Errorf("%w: scan: the body returns %d %s values, expected %d", graph.ErrShape, len(now), what, len(before))
	}
	for i, v := range now {
		if v == nil || !v.Meta.Equal(before[i].Meta) {
			return fmt.Errorf("%w: scan: %s value %d that the body returns is %v, expected %v", graph.ErrShape, what, i, metaText(v), before[i].Meta)
		}
	}
	return nil
}

// rowOf is x[k].
func rowOf(b *graph.Builder, x *graph.Value, k int) *graph.Value {
	start, stop := make([]int, x.Meta.Shape.Rank()), x.Meta.Shape.Clone()
	start[0], stop[0] = k, k+1
	return ReshapeTo(b, SliceOf(b, x, start, stop), x.Meta.Shape[1:]...)
}

// stack is value i of each iteration, along a new first axis.
func stack(b *graph.Builder, rows [][]*graph.Value, i int) *graph.Value {
	parts := make([]*graph.Value, len(rows))
	for k := range rows {
		v := rows[k][i]
		parts[k] = ReshapeTo(b, v, append([]int{1}, v.Meta.Shape...)...)
	}
	return ConcatOf(b, 0, parts...)
}

// standIn is v, with gradients summed in its own way.
func standIn(b *graph.Builder, v *graph.Value, sum graph.GradientSum) *graph.Value {
	in := b.One(Reshape{v.Meta.Shape}, v)
	b.SumGradients(in, sum)
	return in
}

// sumRows is the gradient of a value that is read by rows: the rows' gradients, each in
// its place, without a sum of mostly empty tensors.
func sumRows(b *graph.Builder, parts []*graph.Value) *graph.Value {
	whole := parts[0].Node.Op.(SliceGrad).Shape
	rows := make([]*graph.Value, whole[0])
	for _, p := range parts {
		rows[p.Node.Op.(SliceGrad).Start[0]] = p.Node.In[0]
	}
	for k := range rows {
		if rows[k] == nil {
			none := whole.Clone()
			none[0] = 1
			rows[k] = Const(b, f32(none), 0)
		}
	}
	return ConcatOf(b, 0, rows...)
}
