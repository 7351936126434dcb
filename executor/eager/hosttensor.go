package eager

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency/ledger"
)

// HostTensor is host memory for contents of one metadata, from and to which a device copies
// fastest: pinned memory, where the kind of device has that. Upload and Fetch copy once, where FromHost and
// ToHost copy to memory of their own in between. Whoever made it frees it. All methods are safe for concurrent use; who
// reads or writes the memory itself takes care of the order.
type HostTensor struct {
	lane *lane
	meta shape.Meta

	mu   sync.Mutex
	buf  device.HostBuffer // nil once freed
	used device.Event      // of the newest Upload: the copy's end
}

// AllocHost makes a host tensor for a device of the context, "" for the first. Its contents are undefined.
func (c *Context) AllocHost(m shape.Meta, on device.ID) (*HostTensor, error) {
	const what = "alloc host"
	loc := Caller(1)
	err := cmp.Or(c.checkOpen(), m.Shape.Validate())
	if err == nil && m.DType.Size() == 0 {
		err = fmt.Errorf("there is no data type %s", m.DType)
	}
	if err != nil {
		return nil, c.failed(what, loc, err)
	}
	l, err := c.lane(on)
	if err != nil {
		return nil, c.failed(what, loc, err)
	}
	b, err := l.dev.AllocHost(m.Bytes())
	if err != nil {
		return nil, c.failed(what, loc, err)
	}
	m.Shape = m.Shape.Clone()
	return &HostTensor{lane: l, meta: m, buf: b}, nil
}

// check refuses a nil host tensor, and one that AllocHost did not make.
func (h *HostTensor) check() error {
	if h == nil || h.lane == nil {
		return errs.NotOpened("HostTensor", "OpByOp.AllocHost")
	}
	return nil
}

// Meta is the metadata of the contents.
func (h *HostTensor) Meta() shape.Meta {
	if h.check() != nil {
		return shape.Meta{}
	}
	return h.meta
}

// Bytes is the memory, without a copy; nil once it is freed. After an Upload, Wait before it changes.
func (h *HostTensor) Bytes() []byte {
	if h.check() != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.buf == nil {
		return nil
	}
	return h.buf.Bytes()
}

// Dense is the memory as a tensor of gorgonia, without a copy. It must not be used once the memory is freed.
func (h *HostTensor) Dense() (*tensor.Dense, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	b := h.Bytes()
	if b == nil {
		return nil, errFreed
	}
	return hosttensor.Over(h.meta, b)
}

// Upload makes a tensor of the contents on the device for which the memory was made. It returns before they are
// copied: Wait before they change.
func (h *HostTensor) Upload() Tensor {
	loc := Caller(1)
	if err := h.check(); err != nil {
		return failure(&Error{Op: "upload", Loc: loc, Err: err})
	}
	c := h.lane.context
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	if h.buf == nil {
		err = errFreed
	}
	return c.filled(h.meta, err, h.lane.dev.ID(), loc, func(e *era, r *record) error {
		if err := c.tenant.Feed(r.tensor, h.buf); err != nil {
			return err
		}
		if err := c.tenant.Prefetch(e, r.onDevice()); err != nil {
			return err
		}
		copied, there := c.tenant.FeedDone(r.tensor)
		if !there { // the device has no room: residency keeps the contents
			return c.tenant.Fill(r.tensor, h.buf.Bytes())
		}
		h.used = copied
		return nil
	})
}

// Wait blocks until no Upload reads the memory any more. Its error is that of the newest copy, or ctx's.
func (h *HostTensor) Wait(ctx context.Context) error {
	if err := cmp.Or(h.check(), errs.CheckContext(ctx)); err != nil {
		return err
	}
	h.mu.Lock()
	used := h.used
	h.mu.Unlock()
	return used.Wait(ctx)
}

// Fetch waits for the contents of x, of the same metadata, and copies them to the memory. It does not
// consume x. ctx ends the wait, not the copy. The ledger counts the bytes as fetch.
func (h *HostTensor) Fetch(ctx context.Context, x Tensor) error {
	w := &work{what: "fetch", loc: Caller(1)}
	if err := h.check(); err != nil {
		return &Error{Op: w.what, Loc: w.loc, Err: err}
	}
	c := h.lane.context
	switch m := x.Meta(); {
	case x.refused():
		return x.Err()
	case x.rec.lane.context != c:
		return c.abandon(w, fmt.Errorf("the tensor (%v) belongs to another context than the host tensor", m))
	case !m.Equal(h.meta):
		return c.abandon(w, fmt.Errorf("the tensor is %v, the host tensor %v: they must be equal", m, h.meta))
	case !x.use():
		return c.abandon(w, errConsumed)
	}
	w.args = append(w.argRoom[:0], x)
	defer w.unuse()
	if err := x.rec.maker().wait(ctx); err != nil {
		return err
	}
	if err := cmp.Or(context.Cause(c.era.Load()), h.Wait(ctx)); err != nil {
		return c.abandon(w, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.buf == nil {
		return c.abandon(w, errFreed)
	}
	if err := c.tenant.PullInto(ctx, ledger.Fetch, x.rec.tensor, h.buf); err != nil {
		return c.abandon(w, err)
	}
	return nil
}

// Free gives the memory back, once no copy uses it. The devices cannot be closed well before.
func (h *HostTensor) Free() error {
	if err := h.check(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.buf == nil {
		return errFreed
	}
	b := h.buf
	h.buf = nil
	return b.Free()
}

var errFreed = fmt.Errorf("the host tensor was freed: %w", device.ErrDeleted)
