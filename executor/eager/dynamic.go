package eager

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// Dynamic is a call whose results have as many rows as the contents of its arguments ask for. One goroutine uses
// it at a time. Tensors, or Release, gives it back.
type Dynamic struct {
	context *Context
	kind    string
	loc     Location
	results []Tensor // with room for the most rows; nil once they are given away
	counts  Tensor
	failed  error // of a call that was refused
}

// Dynamic calls an op whose results have shapes that depend on contents, and returns at once. The results of the op
// have room for the most rows that there can be, and the last one is i32 [k]: how many rows, of the first axis,
// each of the first k results has. [ops.Nonzero] and [ops.Unique] are such ops, and ops of the program may be.
func (c *Context) Dynamic(op graph.Op, args ...Tensor) *Dynamic {
	return c.dynamic(op, args, Caller(1))
}

func (c *Context) dynamic(op graph.Op, args []Tensor, loc Location) *Dynamic {
	inv := &Invocation{Op: op, Args: slices.Clone(args), Loc: loc}
	c.Run(inv)
	d := &Dynamic{context: c, loc: loc, kind: "dynamic"}
	if !isNil(op) {
		d.kind = kindOf(op)
	}
	if inv.Results[0].refused() {
		d.failed = inv.Results[0].Err()
		return d
	}
	last := len(inv.Results) - 1
	d.results, d.counts = slices.Clone(inv.Results[:last]), inv.Results[last] // the lane still reads the call's own list
	if err := d.check(); err != nil {
		d.failed = c.failed(d.kind, loc, err)
		_ = d.Release() // the results are live
	}
	return d
}

// check refuses results that are not as Dynamic wants them.
func (d *Dynamic) check() error {
	m := d.counts.Meta()
	if m.DType != shape.Int32 || m.Shape.Rank() != 1 || m.Shape[0] > len(d.results) {
		return fmt.Errorf("its last result, of %d, is %v: for Dynamic it must be i32 [k], the rows of the first k results", len(d.results)+1, m)
	}
	for i, x := range d.results[:m.Shape[0]] {
		if x.Meta().Shape.Rank() == 0 {
			return fmt.Errorf("its result %d is %v, which has no rows: for Dynamic it must have an axis", i, x.Meta())
		}
	}
	return nil
}

// Done reports, without blocking, whether the shapes are known, or the call has failed.
func (d *Dynamic) Done() bool {
	return d == nil || d.failed != nil || d.results == nil || d.counts.Done()
}

// Tensors waits until the shapes are known, and gives the results with their rows, but for the counts. Rows are cut
// on the device; the counts alone are copied to the host, which the ledger counts as fetch. If ctx ends first, it can be
// called again; after any other error there is nothing to give.
func (d *Dynamic) Tensors(ctx context.Context) ([]Tensor, error) {
	switch {
	case d == nil || d.context == nil:
		return nil, errs.NotOpened("Dynamic", "OpByOp.Dynamic")
	case d.failed != nil:
		return nil, d.failed
	case d.results == nil:
		return nil, &Error{Op: d.kind, Loc: d.loc, Err: fmt.Errorf("%w: Tensors gives the results once", ErrConsumed)}
	}
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := d.counts.Wait(ctx); err != nil {
		return nil, d.ended(ctx, err)
	}
	counts, err := d.context.toHost(ctx, d.counts, d.loc)
	if err != nil {
		return nil, d.ended(ctx, err)
	}
	list := d.results
	for i, n := range counts.Int32s() {
		if most := list[i].Meta().Shape[0]; n < 0 || int(n) > most {
			return nil, d.ended(ctx, d.context.failed(d.kind, d.loc, fmt.Errorf("it counts %d rows of result %d, which has room for %d", n, i, most)))
		}
	}
	d.results = nil
	for i, n := range counts.Int32s() {
		list[i] = d.context.cut(list[i], int(n), d.loc)
	}
	return list, d.counts.Release()
}

// ended is the error of a call that gives nothing; one of ctx leaves it as it is.
func (d *Dynamic) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		_ = d.Release() // they are live
		d.failed = err
	}
	return err
}

// cut is the first n rows of x, which it consumes.
func (c *Context) cut(x Tensor, n int, loc Location) Tensor {
	m := x.Meta()
	if n == m.Shape[0] {
		return x
	}
	to := rows(m, n)
	if to.Elems() == 0 {
		on := x.Device()
		_ = x.Release() // it is live
		return c.upload(to, nil, nil, on, loc)
	}
	inv := &Invocation{Op: ops.Slice{Start: make([]int, to.Shape.Rank()), Stop: to.Shape}, Args: []Tensor{x}, Loc: loc}
	c.Run(inv)
	return inv.Results[0]
}

// rows is the metadata of the first n rows.
func rows(m shape.Meta, n int) shape.Meta {
	m.Shape = m.Shape.Clone()
	m.Shape[0] = n
	return m
}

// Release gives back a call whose results nobody wants. A second time, and after Tensors, there is nothing.
func (d *Dynamic) Release() error {
	if d == nil || d.results == nil {
		return nil
	}
	list := append(d.results, d.counts)
	d.results = nil
	var err error
	for _, x := range list {
		if e := x.Release(); err == nil {
			err = e
		}
	}
	return err
}
