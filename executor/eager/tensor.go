package eager

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
)

// Tensor is a handle of a tensor on a device: its metadata is known, its
// contents may still be computed. A handle is counted: it starts with one
// reference, Ref adds one, Execute and Release take one away. With the last one gone, the
// handle is consumed. A handle is a small value, and two are equal if they are of the
// same tensor. The zero Tensor is a handle of nothing. All methods are safe for
// concurrent use.
type Tensor struct {
	rec *record
	gen uint32 // of rec
}

// IsZero reports whether the handle is the zero Tensor.
func (x Tensor) IsZero() bool { return x.rec == nil }

// live reports whether the handle has a reference. It needs the lane's mu.
func (x Tensor) live() bool { return x.rec.gen == x.gen && x.rec.refs > 0 }

// refused reports whether there is no tensor: the handle is the zero Tensor or that of a
// refused call. Such a handle is not counted, and has neither metadata nor a device.
func (x Tensor) refused() bool { return x.rec == nil || x.rec.lane == nil }

// failure is the handle of a call that was refused with err.
func failure(err error) Tensor { return Tensor{rec: &record{made: &work{err: err}}} }

var errZero = fmt.Errorf("%w: the tensor is the zero value of Tensor, which has no contents: use the result of a call or of FromHost", errs.ErrOptions)

// Meta is known at once. The handle of a refused call has the zero Meta.
func (x Tensor) Meta() shape.Meta {
	if x.refused() {
		return shape.Meta{}
	}
	return x.rec.pool.meta // the same for all tensors of a record
}

// Device is the tensor's device; "" for the handle of a refused call.
func (x Tensor) Device() device.ID {
	if x.refused() {
		return ""
	}
	return x.rec.lane.dev.ID()
}

// maker is the call that makes the contents; nil if they are there.
func (x Tensor) maker() (*work, error) {
	switch {
	case x.rec == nil:
		return nil, errZero
	case x.rec.lane == nil:
		return x.rec.made, nil
	}
	x.rec.lane.mu.Lock()
	defer x.rec.lane.mu.Unlock()
	if !x.live() {
		return nil, errConsumed
	}
	return x.rec.made, nil
}

// Done reports, without blocking, whether the contents are there or failed.
func (x Tensor) Done() bool {
	o, err := x.maker()
	return err != nil || o.done()
}

// Err is the failure of the call that computes the contents, nil while none is
// known. That of a consumed handle is ErrConsumed.
func (x Tensor) Err() error {
	o, err := x.maker()
	if err != nil {
		return err
	}
	return o.failure()
}

// Wait blocks until the contents are there and returns their failure, or
// ctx's error if that came first.
func (x Tensor) Wait(ctx context.Context) error {
	o, err := x.maker()
	if err != nil {
		return err
	}
	return o.wait(ctx)
}

// CopyTo copies the tensor to another device, over the host where there is no other
// way. It does not consume.
func (x Tensor) CopyTo(to device.ID) Tensor {
	if x.refused() {
		return x
	}
	return x.rec.lane.context.copyTo(x, to, Caller(1))
}

// ToHost waits for the contents and copies them into a new host tensor. It
// does not consume. It waits for no other call. If ctx ends first, so does the wait, not
// the copy. The host tensor of a scalar has the shape (1). One without elements has its
// shape, and its Float32s or Int32s are empty; gorgonia's Data panics for it.
func (x Tensor) ToHost(ctx context.Context) (*tensor.Dense, error) {
	if x.refused() {
		return nil, x.Err()
	}
	return x.rec.lane.context.toHost(ctx, x, Caller(1))
}

// Ref adds a reference and returns the handle: Execute(op, x.Ref()) leaves x
// usable. The Ref of a consumed tensor is the handle of a refused call.
func (x Tensor) Ref() Tensor {
	if x.refused() {
		return x
	}
	x.rec.lane.mu.Lock()
	defer x.rec.lane.mu.Unlock()
	if !x.live() {
		return failure(&Error{Op: "ref", Loc: Caller(1), Err: errConsumed})
	}
	x.rec.refs++
	return x
}

// Release gives one reference back. With the last one, the memory is freed after
// all calls that use it. It does not block.
func (x Tensor) Release() error {
	if x.refused() {
		return nil
	}
	x.rec.lane.mu.Lock()
	defer x.rec.lane.mu.Unlock()
	if !x.live() {
		return &Error{Op: "release", Loc: Caller(1), Err: errConsumed}
	}
	x.release()
	return nil
}

// release is Release of a live handle, with the lane's mu.
func (x Tensor) release() {
	if x.rec.refs--; x.rec.refs == 0 && x.rec.uses == 0 {
		x.rec.lane.memory.put(x.rec)
	}
}

var errConsumed = fmt.Errorf("%w: pass x.Ref() to every call but the last one that uses it", ErrConsumed)
