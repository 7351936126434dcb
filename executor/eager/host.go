package eager

import (
	"context"
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
	l, err := c.begin(w, to, nil, true)
	if err != nil {
		return failure(err)
	}
	src, err := l.dev.AllocHost(int64(len(data)))
	if err != nil {
		return failure(c.abandon(w, err))
	}
	copy(src.Bytes(), data)
	w.expect([]shape.Meta{{DType: m.DType, Shape: m.Shape.Clone()}})
	w.staged = src
	w.do = func() error {
		return l.write(w.results[0], func(b device.Buffer) error { return l.stream.CopyIn(b, src) })
	}
	if err := l.queue(w); err != nil {
		return failure(c.abandon(w, err))
	}
	return w.results[0]
}

// copyTo is Tensor.CopyTo.
func (c *Context) copyTo(t *Tensor, to device.ID, loc Location) *Tensor {
	w := &work{what: "copy to " + string(to), loc: loc}
	if !t.move(oneUse) {
		return failure(c.abandon(w, t.consumed()))
	}
	w.args = append(w.argRoom[:0], t)
	w.era = c.era.Load()
	if err := context.Cause(w.era); err != nil {
		return failure(c.abandon(w, err))
	}
	l, err := c.lane(to)
	if err != nil {
		return failure(c.abandon(w, err))
	}
	w.home = &l.home
	w.expect([]shape.Meta{t.meta})
	w.do = func() error {
		return l.write(w.results[0], func(b device.Buffer) error { return l.stream.CopyPeer(b, t.buf) })
	}
	if err := l.queue(w); err != nil {
		return failure(c.abandon(w, err))
	}
	return w.results[0]
}

// toHost is Tensor.ToHost.
func (c *Context) toHost(ctx context.Context, t *Tensor, loc Location) (*tensor.Dense, error) {
	var d *tensor.Dense
	done := c.call("to host", loc, nil, false, []*Tensor{t}, func(ds []*tensor.Dense) error {
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
// to pass to calls that must come after it. after may be nil. The device's lane waits
// for f, which therefore must not make calls or wait for tensors itself.
func (c *Context) Call(after *Chain, f func(args []*tensor.Dense) error, args ...*Tensor) *Chain {
	return c.call("call", Caller(1), after, true, args, f)
}

func (c *Context) call(what string, loc Location, after *Chain, consume bool, args []*Tensor, f func([]*tensor.Dense) error) *Chain {
	w := &work{what: what, loc: loc, after: after}
	l, err := c.begin(w, "", args, consume)
	if err != nil {
		return &Chain{&outcome{err: err}}
	}
	w.do = func() error {
		ds := make([]*tensor.Dense, len(w.args))
		for i, a := range w.args {
			var err error
			if ds[i], err = l.read(a); err != nil {
				return err
			}
		}
		return f(ds)
	}
	if err := l.queue(w); err != nil {
		return &Chain{&outcome{err: c.abandon(w, err)}}
	}
	return &Chain{&w.outcome}
}
