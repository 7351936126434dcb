package eager

import (
	"cmp"
	"context"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/errs"
)

// Nonzero is the indices of the elements of x that are not 0, in order: i32 [n, rank of x].
// NaN is not 0. It waits for x, until ctx ends, since the shape depends on the contents, and consumes it:
// Dynamic(ops.Nonzero{}, x) does not wait. The number n is copied to the host, which the ledger counts as a
// fetch; the contents stay on the device.
func (c *Context) Nonzero(ctx context.Context, x Tensor) (Tensor, error) {
	list, err := c.counted(ctx, ops.Nonzero{}, x, Caller(1))
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
	list, err := c.counted(ctx, ops.Unique{}, x, Caller(1))
	if err != nil {
		refused := failure(err)
		return refused, refused, refused, err
	}
	return list[0], list[2], list[1], nil
}

// counted calls an op of Dynamic on x and waits for its results.
func (c *Context) counted(ctx context.Context, op graph.Op, x Tensor, loc Location) ([]Tensor, error) {
	if err := cmp.Or(c.checkOpen(), errs.CheckContext(ctx)); err != nil {
		_ = x.Release() // fails only for a consumed handle, whose error comes after this one
		return nil, c.abandon(&work{what: op.Kind(), loc: loc}, err)
	}
	if x.IsZero() {
		return nil, c.abandon(&work{what: op.Kind(), loc: loc}, errZero)
	}
	d := c.dynamic(op, []Tensor{x}, loc)
	list, err := d.Tensors(ctx)
	if err != nil {
		_ = d.Release() // the wait has ended, or there is nothing
	}
	return list, err
}
