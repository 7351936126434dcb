package eager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Tensor is a handle of a tensor on a device: its metadata is known, its
// contents may still be computed. A handle is counted: it starts with one
// reference, Ref adds one, Execute and Release take one away. All methods are
// safe for concurrent use.
type Tensor struct {
	made  *outcome // of the call that computes it
	meta  shape.Meta
	count atomic.Int64 // references, in units of oneRef, and uses by calls not yet launched

	mu   sync.Mutex
	buf  device.Buffer   // from launch until it is freed or donated
	last [1]device.Event // the last queued use of buf
}

const (
	oneUse int64 = 1
	oneRef int64 = 1 << 32
)

// Meta is known at once. The handle of a refused call has the zero Meta.
func (t *Tensor) Meta() shape.Meta { return t.meta }

// Device is the tensor's device; "" for the handle of a refused call.
func (t *Tensor) Device() device.ID {
	if t.failed() {
		return ""
	}
	return t.made.home.dev.ID()
}

// Done reports, without blocking, whether the contents are there or failed.
func (t *Tensor) Done() bool { return t.made.done() }

// Err is the failure of the call that computes the contents, nil while none is
// known.
func (t *Tensor) Err() error { return t.made.failure() }

// Wait blocks until the contents are there and returns their failure, or
// ctx's error if that came first.
func (t *Tensor) Wait(ctx context.Context) error { return t.made.wait(ctx) }

// failed reports whether t is the handle of a refused call. Such a handle is not
// counted and has neither metadata nor a device.
func (t *Tensor) failed() bool { return t.made.home == nil }

// failure is the handle of a call that was refused with err.
func failure(err error) *Tensor { return &Tensor{made: &outcome{err: err}} }

// CopyTo copies the tensor to another device of the same kind, without the
// host. It does not consume.
func (t *Tensor) CopyTo(to device.ID) *Tensor {
	if t.failed() {
		return t
	}
	return t.made.home.context.copyTo(t, to, Caller(1))
}

// ToHost waits for the contents and copies them into a new host tensor. It
// does not consume. If ctx ends first, so does the wait, not the copy.
func (t *Tensor) ToHost(ctx context.Context) (*tensor.Dense, error) {
	if t.failed() {
		return nil, t.Err()
	}
	return t.made.home.context.toHost(ctx, t, Caller(1))
}

// Ref adds a reference and returns the handle: Execute(op, x.Ref()) leaves x
// usable. The Ref of a consumed tensor is the handle of a refused call.
func (t *Tensor) Ref() *Tensor {
	if !t.failed() && !t.move(oneRef) {
		return failure(&Error{Op: "ref", Loc: Caller(1), Err: t.consumed()})
	}
	return t
}

// Release gives one reference back. With the last one, the memory is freed after
// all calls that use it. It does not block.
func (t *Tensor) Release() error {
	if !t.failed() && !t.move(-oneRef) {
		return &Error{Op: "release", Loc: Caller(1), Err: t.consumed()}
	}
	return nil
}

// move changes the count of a tensor, and frees the tensor if the count becomes
// 0. It reports false, and changes nothing, if there is no reference.
func (t *Tensor) move(by int64) bool {
	for {
		n := t.count.Load()
		if n < oneRef {
			return false
		}
		if t.count.CompareAndSwap(n, n+by) {
			if n+by == 0 {
				t.free()
			}
			return true
		}
	}
}

// unuse ends a call's use.
func (t *Tensor) unuse() {
	switch n := t.count.Add(-oneUse); {
	case n == 0:
		t.free()
	case n < 0:
		panic("BUG: a tensor's use ended twice")
	}
}

// isLast reports whether one use is left and no reference.
func (t *Tensor) isLast() bool { return t.count.Load() == oneUse }

func (t *Tensor) consumed() error {
	return fmt.Errorf("%v: %w: pass x.Ref() to the calls before the last one", t.meta, ErrConsumed)
}

// used notes the last queued use of the memory.
func (t *Tensor) used(e device.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[0] = e
}

// attach gives the tensor its memory.
func (t *Tensor) attach(b device.Buffer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = b
	t.made.home.live.add(1, t.meta.Bytes())
}

// take takes the memory away, to be freed or given to another tensor; nil if
// there is none.
func (t *Tensor) take() device.Buffer {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	if b != nil {
		t.buf = nil
		t.made.home.live.add(-1, -t.meta.Bytes())
	}
	return b
}

// free frees the memory, for work after its last use. A device that was closed
// under it has freed it already.
func (t *Tensor) free() {
	b := t.take()
	if b == nil {
		return
	}
	if err := b.Free(t.last[:]...); err != nil && !errors.Is(err, device.ErrDeleted) {
		panic(fmt.Sprintf("BUG: freeing a tensor: %v", err))
	}
}
