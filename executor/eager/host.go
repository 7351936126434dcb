package eager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/panics"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// FromHost copies a host tensor to a device of the context, "" for the first.
// The tensor is the caller's again when FromHost returns. The copy to the device goes on
// while calls run that do not use it. Its elements are float32 or int32, as ops take them: FromBytes
// copies others, for ops of the program.
func (c *Context) FromHost(d *tensor.Dense, to device.ID) Tensor {
	m, data, err := hosttensor.Bytes(d)
	if err == nil && m.DType != shape.Float32 && m.DType != shape.Int32 {
		err = fmt.Errorf("the elements of %v are not float32 or int32, as ops take them: convert them first", m)
	}
	return c.upload(m, data, err, to, Caller(1))
}

// FromBytes copies contents of any metadata, scalars too, as FromHost does.
func (c *Context) FromBytes(m shape.Meta, data []byte, to device.ID) Tensor {
	err := m.Shape.Validate()
	if err == nil && m.Bytes() != int64(len(data)) {
		err = fmt.Errorf("%v has %d bytes, %d were passed", m, m.Bytes(), len(data))
	}
	return c.upload(m, data, err, to, Caller(1))
}

// upload makes a tensor of a copy of data.
func (c *Context) upload(m shape.Meta, data []byte, err error, to device.ID, loc Location) Tensor {
	return c.filled(m, err, to, loc, func(e *era, r *record) error {
		if err := c.tenant.Fill(r.tensor, data); err != nil {
			return err
		}
		return c.tenant.MoveIn(e, r.onDevice())
	})
}

// onDevice is the need of the record's tensor on its device.
func (r *record) onDevice() []residency.Need {
	return []residency.Need{{Tensor: r.tensor, Device: r.lane.memory.device, Mode: residency.Read}}
}

// filled makes a tensor to which fill gives contents.
func (c *Context) filled(m shape.Meta, err error, to device.ID, loc Location, fill func(*era, *record) error) Tensor {
	w := &work{what: "from host", loc: loc}
	if err := cmp.Or(c.checkOpen(), err); err != nil {
		return failure(c.abandon(w, err))
	}
	l, of, err := c.begin(to, nil)
	if err != nil {
		return failure(c.abandon(w, err))
	}
	l.mu.Unlock()
	w.era = of
	x, err := l.empty(m)
	if err != nil {
		return failure(c.abandon(w, err))
	}
	if err = fill(of, x.rec); err != nil {
		_ = x.Release() // it is live
		return failure(c.abandon(w, w.era.cause(err)))
	}
	if c.places {
		remember(loc, x)
	}
	return x
}

// copyTo is Tensor.CopyTo.
func (c *Context) copyTo(x Tensor, to device.ID, loc Location) Tensor {
	w := &work{what: "copy to " + string(to), loc: loc}
	m := x.Meta()
	if !x.use() {
		return failure(c.abandon(w, errConsumed))
	}
	w.args = append(w.argRoom[:0], x)
	w.era = c.era.Load()
	if err := context.Cause(w.era); err != nil {
		return failure(c.abandon(w, err))
	}
	l, err := c.lane(to)
	if err != nil {
		return failure(c.abandon(w, err))
	}
	y, err := l.empty(m)
	if err != nil {
		return failure(c.abandon(w, err))
	}
	y.use() // by the copy, which may end after the last handle
	w.results = append(w.resultRoom[:0], y)
	err = c.aside(w, func() error {
		return l.copyIn(w.era, x.rec.tensor, y.rec.tensor, x.rec.lane != l)
	})
	if err != nil {
		y.rec.unuse()
		_ = y.Release() // it is live
		return failure(c.abandon(w, err))
	}
	if c.places {
		remember(loc, y)
	}
	return y
}

// copyIn makes dst, on the lane's device, a copy of src, which may be elsewhere.
func (l *lane) copyIn(e *era, src, dst *residency.Tensor, away bool) error {
	x, tenant, d := &l.copies, l.memory.tenant, l.memory.device
	done, err := x.queue(e, tenant, []residency.Need{{Tensor: src, Device: d, Mode: residency.Read}, {Tensor: dst, Device: d, Mode: residency.Write}})
	if err != nil {
		return e.cause(err)
	}
	if away {
		tenant.DropCopy(d, src)
	}
	if err := done.Wait(context.Background()); err != nil {
		x.renew(done)
		return err
	}
	return nil
}

// toHost is Tensor.ToHost.
func (c *Context) toHost(ctx context.Context, x Tensor, loc Location) (*tensor.Dense, error) {
	w := &work{what: "to host", loc: loc}
	if !x.use() {
		return nil, c.abandon(w, errConsumed)
	}
	w.args = append(w.argRoom[:0], x)
	defer w.unuse()
	if err := x.rec.maker().wait(ctx); err != nil {
		return nil, err
	}
	if err := context.Cause(c.era.Load()); err != nil {
		return nil, c.abandon(w, err)
	}
	d, err := c.read(ctx, x.rec)
	if err != nil {
		return nil, c.abandon(w, err)
	}
	return d, nil
}

// read copies contents that are there to the host.
func (c *Context) read(ctx context.Context, r *record) (*tensor.Dense, error) {
	d, err := hosttensor.New(r.tensor.Meta())
	if err != nil {
		return nil, err
	}
	_, to, err := hosttensor.Bytes(d)
	if err != nil {
		return nil, err
	}
	if err := c.tenant.PullBack(ctx, ledger.Fetch, r.tensor); err != nil {
		return nil, err
	}
	return d, c.tenant.View(r.tensor, func(b []byte) error { copy(to, b); return nil })
}

// Call runs a host function on the contents of args, for its side effects: it
// consumes args, runs when they and the chain are there, and returns the chain
// to pass to calls that must come after it. after may be nil. The function runs on a
// goroutine of its own, while other calls run. A panic of it is the call's error.
//
// The function may make calls. They never wait for room in a queue that may wait for the
// function: they fail with ErrBusy. It must not wait for the results of calls behind one that
// waits for the function.
func (c *Context) Call(after *Chain, f func(args []*tensor.Dense) error, args ...Tensor) *Chain {
	w := &work{what: "call", loc: Caller(1), after: after}
	if err := cmp.Or(c.checkOpen(), errs.CheckFunction("f", f == nil)); err != nil {
		return &Chain{&work{err: c.refuse(w.what, w.loc, args, err)}}
	}
	l, of, err := c.begin("", args)
	if l == nil {
		return &Chain{&work{err: c.refuse(w.what, w.loc, args, err)}}
	}
	l.mu.Unlock()
	w.era, w.args = of, slices.Clone(args)
	list := w.args
	err = c.aside(w, func() error {
		ds := make([]*tensor.Dense, len(list))
		for i, x := range list {
			var err error
			if ds[i], err = c.read(w.era, x.rec); err != nil {
				return w.era.cause(err)
			}
		}
		return guarded(f, ds)
	})
	if err != nil {
		return &Chain{&work{err: c.abandon(w, err)}}
	}
	return &Chain{w}
}

// aside runs do on a goroutine of its own once the call's arguments are there. It fails
// if the context is closed.
func (c *Context) aside(w *work, do func() error) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.hosted.Add(1)
	c.mu.Unlock()
	if err := c.takeSlot(w.era); err != nil {
		c.hosted.Done()
		return err
	}
	w.lane, w.ended = nil, make(chan struct{})
	for _, x := range w.results {
		x.rec.begin(w)
	}
	go func() {
		defer c.hosted.Done()
		c.finish(w, c.await(w, do))
		<-c.slots
	}()
	return nil
}

// takeSlot waits until fewer than 1,024 calls run aside, or the era is over. Within a function
// of Call, which has a slot itself, it does not wait: all others may be as far.
func (c *Context) takeSlot(e *era) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	if withinCall() {
		return fmt.Errorf("%w: %d functions and copies are under way, the most at a time, and a call from within one of them cannot wait for another to end: make fewer calls at a time", ErrBusy, laneSize)
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-e.Done():
		return context.Cause(e)
	}
}

// await waits for the arguments and the chain of a call, and does it. It reports a failure that
// arises here.
func (c *Context) await(w *work, do func() error) error {
	from := []*work{nil}
	if w.after != nil {
		from[0] = w.after.made
	}
	for _, x := range w.args {
		from = append(from, x.rec.maker())
	}
	for _, o := range from {
		if err := o.wait(w.era); err != nil {
			if failure := o.failure(); failure != nil {
				return failure
			}
			return &Error{Op: w.what, Loc: w.loc, Err: w.era.cause(err)}
		}
	}
	err := context.Cause(w.era)
	if err == nil {
		err = do()
	}
	if err != nil {
		err = &Error{Op: w.what, Loc: w.loc, Err: err}
		if !errors.Is(err, ErrCanceled) {
			c.report(err)
		}
	}
	return err
}

// finish ends a call that ran aside.
func (c *Context) finish(w *work, err error) {
	w.unuse()
	w.err, w.after = err, nil
	for _, x := range w.results {
		x.rec.end(x.gen, err)
		x.rec.unuse()
	}
	close(w.ended)
}

// copies is a lane's stream for copies within its device. It has a lock of its own: copies run
// at the same time as the lane's goroutine.
type copies struct {
	dev  device.Device
	name string

	mu     sync.Mutex
	stream device.Stream // nil before the first copy
	lease  residency.Lease
}

// prompt is a stream that is no device.Delayer: a copy does not begin before its source is
// there, as a launch can.
type prompt struct{ device.Stream }

// queue copies the first tensor, which it needs to read, to the second one.
func (x *copies) queue(ctx context.Context, tenant *residency.Tenant, needs []residency.Need) (done device.Event, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil {
		s, err := x.dev.NewStream(x.name)
		if err != nil {
			return done, err
		}
		x.stream = &prompt{s}
	}
	if err := tenant.Acquire(ctx, x.stream, needs, 0, &x.lease); err != nil {
		return done, err
	}
	if err := x.stream.CopyPeer(x.lease.Buffers[1], x.lease.Buffers[0]); err != nil {
		return done, errors.Join(err, tenant.Abandon(&x.lease))
	}
	done = x.stream.Record()
	return done, tenant.Release(&x.lease, done)
}

// renew gives up the stream on which a copy failed. The next copy opens another one.
func (x *copies) renew(failed device.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream != nil && x.stream.Record().Queue == failed.Queue {
		_ = x.stream.Close() // the failure is known
		x.stream = nil
	}
}

// close closes the stream.
func (x *copies) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stream == nil {
		return nil
	}
	return x.stream.Close()
}

// guarded calls a function of the program.
func guarded(f func([]*tensor.Dense) error, args []*tensor.Dense) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the function panicked: %s", panics.Text(r))
		}
	}()
	return f(args)
}

// withinCall reports whether a function of Call has called, on its own goroutine.
func withinCall() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Entry == guardedEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// guardedEntry is the address of guarded.
var guardedEntry = reflect.ValueOf(guarded).Pointer()
