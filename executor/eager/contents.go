package eager

import (
	"cmp"
	"context"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// Nonzero is the indices of the elements of x that are not 0, in order: i32 [n, rank of x].
// NaN is not 0. Since the shape depends on the contents, Nonzero copies them to the host,
// which the ledger counts as a fetch: it waits for x, until ctx ends. It consumes x.
func (c *Context) Nonzero(ctx context.Context, x Tensor) (Tensor, error) {
	loc := Caller(1)
	on, m, data, err := c.contents(ctx, x, loc)
	if err != nil {
		return failure(err), err
	}
	var found []int32
	n, strides := 0, m.Shape.Strides()
	for i := range m.Elems() {
		if isZero(m.DType, data, i) {
			continue
		}
		n++
		for axis, step := range strides {
			found = append(found, int32(i/step%m.Shape[axis]))
		}
	}
	return c.upload(shape.I32(n, m.Shape.Rank()), shape.Bytes(found), nil, on, loc), nil
}

// Unique is the values of x, each once and in ascending order; for each element of x the
// index of its value, i32 in x's shape; and how often each value occurs, i32 [n]. All NaN
// are one value, the last; -0 is 0. It waits for x and consumes it, as [Context.Nonzero]
// does.
func (c *Context) Unique(ctx context.Context, x Tensor) (values, index, counts Tensor, err error) {
	loc := Caller(1)
	on, m, data, err := c.contents(ctx, x, loc)
	if err != nil {
		refused := failure(err)
		return refused, refused, refused, err
	}
	var list []byte
	var at, often []int32
	if m.DType == shape.Float32 {
		floats := slices.Clone(shape.View[float32](data))
		for i, x := range floats {
			floats[i] = x + 0 // -0 + 0 is 0
		}
		list, at, often = unique(floats, nanLast)
	} else {
		list, at, often = unique(shape.View[int32](data), cmp.Compare[int32])
	}
	up := func(d shape.DType, data []byte, s ...int) Tensor {
		return c.upload(shape.Meta{DType: d, Shape: s}, data, nil, on, loc)
	}
	return up(m.DType, list, len(often)), up(shape.Int32, shape.Bytes(at), m.Shape...), up(shape.Int32, shape.Bytes(often), len(often)), nil
}

// contents is a copy of a tensor's contents, and where it was. It consumes the tensor.
func (c *Context) contents(ctx context.Context, x Tensor, loc Location) (on device.ID, m shape.Meta, data []byte, err error) {
	if err := cmp.Or(c.checkOpen(), errs.CheckContext(ctx)); err != nil {
		_ = x.Release() // fails only for a consumed handle, whose error comes after this one
		return "", m, nil, c.abandon(&work{what: "to host", loc: loc}, err)
	}
	if x.IsZero() {
		return "", m, nil, c.abandon(&work{what: "to host", loc: loc}, errZero)
	}
	if err := x.Err(); err != nil {
		_ = x.Release() // fails only for a consumed handle, whose error this is
		return "", m, nil, err
	}
	on, m = x.Device(), x.Meta()
	d, err := c.toHost(ctx, x, loc)
	if err != nil {
		_ = x.Release() // it was consumed, or the wait has ended
		return "", m, nil, err
	}
	if err := x.Release(); err != nil {
		return "", m, nil, err
	}
	_, data, err = hosttensor.Bytes(d)
	return on, m, data[:m.Bytes()], err
}

// isZero reports whether element i is 0 or -0.
func isZero(d shape.DType, data []byte, i int) bool {
	if d == shape.Float32 {
		return shape.View[float32](data)[i] == 0
	}
	return shape.View[int32](data)[i] == 0
}

// nanLast compares numbers. NaN comes behind all others.
func nanLast(a, b float32) int {
	if a != a || b != b {
		return -cmp.Compare(a, b) // where NaN comes first
	}
	return cmp.Compare(a, b)
}

// unique is the bytes of the values in order, the index of each element's value, and the
// number of elements of each value.
func unique[T float32 | int32](elements []T, compare func(a, b T) int) (values []byte, index, counts []int32) {
	order := make([]int32, len(elements))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return compare(elements[i], elements[j]) })
	var list []T
	index = make([]int32, len(elements))
	for k, i := range order {
		if k == 0 || compare(elements[order[k-1]], elements[i]) != 0 {
			list, counts = append(list, elements[i]), append(counts, 0)
		}
		index[i] = int32(len(list) - 1)
		counts[len(list)-1]++
	}
	return shape.Bytes(list), index, counts
}
