package eager

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// Nonzero is the op of [Context.Nonzero], for [Context.Dynamic].
type Nonzero struct{}

// Kind is "nonzero".
func (Nonzero) Kind() string { return "nonzero" }

// Infer has room for all elements, and the count.
func (Nonzero) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := wantsNumbers(in); err != nil {
		return nil, err
	}
	return []shape.Meta{shape.I32(in[0].Elems(), in[0].Shape.Rank()), shape.I32(1)}, nil
}

// Grad has none: places are not differentiated.
func (Nonzero) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value {
	return []*graph.Value{nil}
}

// Cost counts the reading and writing.
func (Nonzero) Cost(in, out []shape.Meta) graph.Cost { return moved(in, out) }

// Compute lists the places of the elements that are not 0 or -0.
func (Nonzero) Compute(in, out []graph.Tensor) error {
	x, places := in[0], out[0].I
	strides := x.Meta.Shape.Strides()
	n := 0
	for i := range x.Meta.Elems() {
		if x.F != nil && x.F[i] == 0 || x.I != nil && x.I[i] == 0 {
			continue
		}
		for axis, step := range strides {
			places[n*len(strides)+axis] = int32(i / step % x.Meta.Shape[axis])
		}
		n++
	}
	clear(places[n*len(strides):])
	out[1].I[0] = int32(n)
	return nil
}

// Unique is the op of [Context.Unique], for [Context.Dynamic]: its results are the values, the counts and the index.
type Unique struct{}

// Kind is "unique".
func (Unique) Kind() string { return "unique" }

// Infer has room for a value for each element, and the two counts.
func (Unique) Infer(in []shape.Meta) ([]shape.Meta, error) {
	if err := wantsNumbers(in); err != nil {
		return nil, err
	}
	n := in[0].Elems()
	return []shape.Meta{{DType: in[0].DType, Shape: shape.Of(n)}, shape.I32(n), shape.I32(in[0].Shape...), shape.I32(2)}, nil
}

// Grad has none.
func (Unique) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value {
	return []*graph.Value{nil}
}

// Cost counts the reading and writing.
func (Unique) Cost(in, out []shape.Meta) graph.Cost { return moved(in, out) }

// Compute sorts the elements.
func (Unique) Compute(in, out []graph.Tensor) error {
	var n int
	if in[0].Meta.DType == shape.Float32 {
		n = unique(in[0].F, nanLast, out[0].F, out[1].I, out[2].I)
	} else {
		n = unique(in[0].I, cmp.Compare[int32], out[0].I, out[1].I, out[2].I)
	}
	out[3].I[0], out[3].I[1] = int32(n), int32(n)
	return nil
}

// wantsNumbers refuses arguments that are not one tensor of f32 or i32.
func wantsNumbers(in []shape.Meta) error {
	switch {
	case len(in) != 1:
		return fmt.Errorf("got %d arguments, expected one", len(in))
	case in[0].DType != shape.Float32 && in[0].DType != shape.Int32:
		return fmt.Errorf("got %v, expected f32 or i32: convert it with ops.Cast", in[0])
	}
	return nil
}

// moved is the cost of reading and writing.
func moved(in, out []shape.Meta) (c graph.Cost) {
	for _, m := range slices.Concat(in, out) {
		c.Bytes += m.Bytes()
	}
	return c
}

// nanLast compares numbers. NaN comes behind all others.
func nanLast(a, b float32) int {
	if a != a || b != b {
		return -cmp.Compare(a, b) // where NaN comes first
	}
	return cmp.Compare(a, b)
}

// unique writes the n values in ascending order, the number of elements of each value, and the index of each
// element's value. The rest of values and counts is 0.
func unique[T float32 | int32](elements []T, compare func(a, b T) int, values []T, counts, index []int32) (n int) {
	order := counts // which of its entries are counts already has been read
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return compare(elements[i], elements[j]) })
	for _, i := range order {
		x := elements[i] + 0 // -0 + 0 is 0
		if n == 0 || compare(values[n-1], x) != 0 {
			values[n], counts[n] = x, 0
			n++
		}
		index[i] = int32(n - 1)
		counts[n-1]++
	}
	clear(values[n:])
	clear(counts[n:])
	return n
}

// Nonzero is the indices of the elements of x that are not 0, in order: i32 [n, rank of x].
// NaN is not 0. It waits for x, until ctx ends, since the shape depends on the contents, and consumes it:
// Dynamic(Nonzero{}, x) does not wait. The number n is copied to the host, which the ledger counts as a
// fetch; the contents stay on the device, unless its memory is not the host's: then they are counted on the host.
func (c *Context) Nonzero(ctx context.Context, x Tensor) (Tensor, error) {
	list, err := c.counted(ctx, Nonzero{}, x, Caller(1))
	if err != nil {
		return failure(err), err
	}
	return list[0], nil
}

// Unique is the values of x, each once and in ascending order; for each element of x the
// index of its value, i32 in x's shape; and how often each value occurs, i32 [n]. All NaN
// are one value, the last; -0 is 0. It waits for x and consumes it, as [Context.Nonzero]
// does.
func (c *Context) Unique(ctx context.Context, x Tensor) (values, index, counts Tensor, err error) {
	list, err := c.counted(ctx, Unique{}, x, Caller(1))
	if err != nil {
		refused := failure(err)
		return refused, refused, refused, err
	}
	return list[0], list[2], list[1], nil
}

// counted calls an op of Dynamic on x and waits for its results.
func (c *Context) counted(ctx context.Context, op graph.Computer, x Tensor, loc Location) ([]Tensor, error) {
	if err := cmp.Or(c.checkOpen(), errs.CheckContext(ctx)); err != nil {
		_ = x.Release() // fails only for a consumed handle, whose error comes after this one
		return nil, c.abandon(&work{what: op.Kind(), loc: loc}, err)
	}
	if x.IsZero() {
		return nil, c.abandon(&work{what: op.Kind(), loc: loc}, errZero)
	}
	if err := x.Err(); err != nil {
		_ = x.Release() // fails only for a consumed handle, whose error this is
		return nil, err
	}
	if l := x.rec.lane; !l.supports(op, x.Meta()) {
		return c.countedOnHost(ctx, op, x, loc)
	}
	d := c.dynamic(op, []Tensor{x}, loc)
	list, err := d.Tensors(ctx)
	if err != nil {
		_ = d.Release() // the wait has ended, or there is nothing
	}
	return list, err
}

// supports reports whether the device runs an op.
func (l *lane) supports(op graph.Op, m shape.Meta) bool {
	g, err := graphOf(op, []shape.Meta{m}, nil)
	return err != nil || !slices.ContainsFunc(g.Nodes, func(n *graph.Node) bool { return l.dev.Supports(n) != nil }) // the call tells of err
}

// countedOnHost is counted for a device that does not run the op.
func (c *Context) countedOnHost(ctx context.Context, op graph.Computer, x Tensor, loc Location) ([]Tensor, error) {
	on, m := x.Device(), x.Meta()
	d, err := c.toHost(ctx, x, loc)
	if err == nil {
		err = x.Release()
	} else {
		_ = x.Release() // it was consumed, or the wait has ended
	}
	if err != nil {
		return nil, err
	}
	_, data, err := hosttensor.Bytes(d)
	if err != nil {
		return nil, err
	}
	metas, err := op.Infer([]shape.Meta{m})
	if err != nil {
		return nil, err
	}
	out, bytes := make([]graph.Tensor, len(metas)), make([][]byte, len(metas))
	for i, m := range metas {
		bytes[i] = shape.Bytes(make([]int32, m.Elems()))
		out[i] = contentsOf(m, bytes[i])
	}
	if err := op.Compute([]graph.Tensor{contentsOf(m, data[:m.Bytes()])}, out); err != nil {
		return nil, err
	}
	counts := out[len(out)-1].I
	list := make([]Tensor, len(metas)-1)
	for i := range list {
		m := metas[i]
		if i < len(counts) {
			m = rows(m, int(counts[i]))
		}
		list[i] = c.upload(m, bytes[i][:m.Bytes()], nil, on, loc)
	}
	return list, nil
}

// contentsOf is contents as a Computer has them.
func contentsOf(m shape.Meta, b []byte) graph.Tensor {
	if m.DType == shape.Float32 {
		return graph.Tensor{Meta: m, F: shape.View[float32](b)}
	}
	return graph.Tensor{Meta: m, I: shape.View[int32](b)}
}

// rows is the metadata of the first n rows.
func rows(m shape.Meta, n int) shape.Meta {
	m.Shape = m.Shape.Clone()
	m.Shape[0] = n
	return m
}
