package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// Batch is the samples of one step: per input of the program, in the order of
// [Program.Inputs], its rows side by side; a buffer may have room for more.
// The buffers must stay as they are until the step's ticket was waited for.
type Batch struct {
	Samples int
	Bucket  int // index in [LoadOptions.Buckets] of the plan for its samples; 0 without buckets
	Fields  []device.HostBuffer
}

// Step queues one step and returns before it ran. At most two steps are under
// way: the one before the last is waited for first. ctx bounds that, and
// waiting for memory, up to the step's Update phase.
//
// A step is queued whole or not at all: after an error nothing uses the batch
// any more, and Next gives the same ticket. An error of a task is a
// [*TaskError]. After the failure of a device, or half an update, the runtime
// is unusable, and all further steps fail with the same error; otherwise Step
// may be called again.
func (p *Program) Step(ctx context.Context, b Batch) (Ticket, error) {
	e, err := p.fit(b)
	if err = cmp.Or(err, p.usable(), ctx.Err()); err != nil {
		return 0, err
	}
	if p.beside != nil {
		if err := p.keepUp(ctx); err != nil {
			return 0, err
		}
		if e, err = p.fit(b); err != nil { // anew: it may have other tasks now
			return 0, err
		}
	}
	ticket := p.Next()
	f := p.inflight.of(ticket)
	if f.e != nil {
		if err := p.Wait(ctx, f.ticket); err != nil {
			return 0, err
		}
	}
	p.rt.steps++
	p.rt.expect(e)
	f.depart(ticket, p.rt.steps, e)
	if err := p.queueAll(ctx, f, b); err != nil {
		return 0, p.abort(f, err)
	}
	p.steps++
	for _, s := range p.rt.compute {
		f.done = append(f.done, s.Record())
	}
	f.done = p.rt.Residency.PeerCopies(f.done)
	return ticket, nil
}

// queueAll feeds the batch and queues every task. The Update phase is not
// interrupted: half an update would be worse than waiting.
func (p *Program) queueAll(ctx context.Context, f *flight, b Batch) error {
	for i := range f.e.feeds {
		feed := &f.e.feeds[i]
		view := &feed.views[f.slot()]
		*view = *device.NewHostView(b.Fields[feed.field], feed.from, feed.bytes)
		if err := p.rt.Residency.Feed(feed.tensor, view); err != nil {
			return err
		}
	}
	for _, t := range f.e.tasks {
		if t.updates {
			if err := ctx.Err(); err != nil {
				return f.failed(t, err)
			}
			ctx = context.Background()
		}
		if err := p.queue(ctx, f, t); err != nil {
			return f.failed(t, err)
		}
	}
	return nil
}

// fit finds the step that a batch takes.
func (p *Program) fit(b Batch) (*expansion, error) {
	if len(b.Fields) != len(p.inputs) {
		return nil, fmt.Errorf("%w: it has %d fields, but the program has %d inputs: give a field for each", ErrBatch, len(b.Fields), len(p.inputs))
	}
	e, err := p.sized(b.Samples, b.Bucket)
	if err != nil {
		return nil, err
	}
	for i, hb := range b.Fields {
		if hb == nil {
			return nil, fmt.Errorf("%w: field %d (%s) is nil: give it a buffer", ErrBatch, i, p.inputs[i].Name)
		}
		if have := int64(len(hb.Bytes())); have < e.bytes[i] {
			return nil, fmt.Errorf("%w: field %d (%s) has %d bytes, but %d samples take %d",
				ErrBatch, i, p.inputs[i].Name, have, b.Samples, e.bytes[i])
		}
	}
	return e, nil
}

// queue acquires, launches and releases one task. It does not wait for the
// device.
func (p *Program) queue(ctx context.Context, f *flight, t *task) error {
	s, m := p.rt.on[t.dev].compute, p.rt.Residency
	if err := m.Acquire(ctx, s, t.needs, t.scratch, &t.lease); err != nil {
		return err
	}
	for i, n := range t.inNeed {
		t.in[i] = t.lease.Buffers[n]
	}
	for i, n := range t.outNeed {
		t.out[i] = t.lease.Buffers[n]
	}
	done, err := s.Launch(t.exe, t.in, t.out, t.lease.Scratch)
	if err != nil {
		return errors.Join(err, m.Abandon(&t.lease))
	}
	for _, n := range t.outNeed {
		t.lease.Ready[n] = t.lease.Buffers[n].Ready()
	}
	t.events[f.slot()] = done
	if tell := p.rt.launched; tell != nil {
		tell(Launched{Event: done, Net: f.e.net, Step: f.ticket, Task: t.name, Kind: t.kind, Call: t.call})
	}
	if err := m.Release(&t.lease, done); err != nil {
		return err
	}
	for _, x := range t.drops {
		if err := m.Drop(x); err != nil {
			return err
		}
	}
	return nil
}
