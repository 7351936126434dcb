package eager

import (
	"context"
	"errors"
	"fmt"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
)

// FromHost copies a host tensor to a device of the context, "" for the first.
// The tensor is the caller's again when FromHost returns.
func (c *Context) FromHost(d *tensor.Dense, to device.ID) *Tensor {
	m, data, err := hosttensor.Bytes(d)
	return c.upload(m, data, err, to, Caller(1))
}

// FromBytes copies contents of any metadata, scalars too, as FromHost does.
func (c *Context) FromBytes(m shape.Meta, data []byte, to device.ID) *Tensor {
	err := m.Shape.Validate()
	if err == nil && m.Bytes() != int64(len(data)) {
		err = fmt.Errorf("%v has %d bytes, %d were passed", m, m.Bytes(), len(data))
	}
	return c.upload(m, data, err, to, Caller(1))
}

func (c *Context) upload(m shape.Meta, data []byte, err error, to device.ID, loc Location) *Tensor {
	w := &work{what: "from host", loc: loc}
	if err != nil {
		return failure(c.abandon(w, err))
	}
	if err := c.begin(w, to, nil, true); err != nil {
		return failure(err)
	}
	src, err := w.lane.dev.AllocHost(int64(len(data)))
	if err != nil {
		return failure(c.abandon(w, err))
	}
	copy(src.Bytes(), data)
	w.expect([]shape.Meta{{DType: m.DType, Shape: m.Shape.Clone()}})
	w.staged = src
	w.do = func() error {
		return w.lane.write(w.results[0], func(b device.Buffer) error { return w.lane.stream.CopyIn(b, src) })
	}
	if err := w.lane.queue(w); err != nil {
		return failure(c.abandon(w, err))
	}
	return w.results[0]
}

// CopyTo copies the tensor to another device of the same kind, without the
// host. It does not consume.
func (t *Tensor) CopyTo(to device.ID) *Tensor {
	if t.failed() {
		return t
	}
	c := t.work.lane.context
	w := &work{what: "copy to " + string(to), loc: Caller(1)}
	if !t.move(oneUse) {
		return failure(c.abandon(w, t.consumed()))
	}
	w.args = append(w.argRoom[:0], t)
	w.era = c.era.Load()
	err := context.Cause(w.era)
	if err == nil {
		w.lane, err = c.lane(to)
	}
	if err == nil {
		w.expect([]shape.Meta{t.meta})
		w.do = func() error {
			return w.lane.write(w.results[0], func(b device.Buffer) error { return w.lane.stream.CopyPeer(b, t.buf) })
		}
		err = w.lane.queue(w)
	}
	if err != nil {
		return failure(c.abandon(w, err))
	}
	return w.results[0]
}

// ToHost waits for the contents and copies them into a new host tensor. It
// does not consume. If ctx ends first, so does the wait, not the copy.
func (t *Tensor) ToHost(ctx context.Context) (*tensor.Dense, error) {
	if t.failed() {
		return nil, t.Err()
	}
	var d *tensor.Dense
	done := t.work.lane.context.call("to host", Caller(1), nil, false, []*Tensor{t}, func(ds []*tensor.Dense) error {
		d = ds[0]
		return nil
	})
	if err := done.Wait(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Call runs a host function on the contents of args, for its side effects: it
// consumes args, runs when they and the chain are there, and returns the chain
// to pass to what must come after. after may be nil. The device's lane waits
// for f, which therefore must not make calls or wait for tensors itself.
func (c *Context) Call(after *Chain, f func(args []*tensor.Dense) error, args ...*Tensor) *Chain {
	return c.call("call", Caller(1), after, true, args, f)
}

func (c *Context) call(what string, loc Location, after *Chain, consume bool, args []*Tensor, f func([]*tensor.Dense) error) *Chain {
	w := &work{what: what, loc: loc, after: after}
	if err := c.begin(w, "", args, consume); err != nil {
		return &Chain{&work{err: err}}
	}
	w.do = func() error {
		ds := make([]*tensor.Dense, len(w.args))
		for i, a := range w.args {
			var err error
			if ds[i], err = w.lane.read(a); err != nil {
				return err
			}
		}
		return f(ds)
	}
	if err := w.lane.queue(w); err != nil {
		return &Chain{&work{err: c.abandon(w, err)}}
	}
	return &Chain{w}
}

// write gives t memory and lets queue fill it. It waits for the end.
func (l *lane) write(t *Tensor, queue func(device.Buffer) error) error {
	b, err := l.dev.Alloc(t.meta, device.Activation)
	if err != nil {
		return err
	}
	t.hold(b)
	if err := queue(b); err != nil {
		return err
	}
	return l.settle(l.stream.Record())
}

// read copies contents out, and waits for it.
func (l *lane) read(t *Tensor) (*tensor.Dense, error) {
	d, err := hosttensor.New(t.meta)
	if err != nil {
		return nil, err
	}
	_, to, err := hosttensor.Bytes(d)
	if err != nil {
		return nil, err
	}
	from, err := l.dev.AllocHost(t.meta.Bytes())
	if err != nil {
		return nil, err
	}
	done, err := l.stream.CopyOut(from, t.buf)
	if err == nil {
		err = l.settle(done)
	}
	copy(to, from.Bytes())
	return d, errors.Join(err, from.Free())
}

// settle waits for e and replaces the stream if it failed.
func (l *lane) settle(e device.Event) error {
	err := e.Wait(context.Background())
	if err != nil {
		l.renew()
	}
	return err
}
