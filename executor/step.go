package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// ErrBatch is the cause of errors about a batch's size.
var ErrBatch = errors.New("batch does not fit the program")

// Batch is what one step trains on: per input of the program, in the order of
// [Program.Inputs], its rows side by side; a buffer may have room for more.
// The buffers must stay as they are until the step's ticket was waited for.
type Batch struct {
	Samples int
	Fields  []device.HostBuffer
}

// Ticket stands for a queued step. They count from 1.
type Ticket uint64

// flight is a step that was queued and not yet waited for.
type flight struct {
	ticket Ticket
	order  uint64 // among the steps of all programs
	e      *expansion
	done   []device.Event // per device
}

// ahead is how many steps of a program may be under way: one may be queued
// while the one before it runs, no more.
const ahead = 2

// Next is the ticket that the next call of Step will give.
func (p *Program) Next() Ticket { return Ticket(p.steps + 1) }

// Step queues one step and returns before it ran. At most two steps are under
// way: the one before the last is waited for first. ctx bounds that, and
// waiting for memory, up to the step's Update phase.
//
// A step is queued whole or not at all: after an error nothing uses the batch
// any more, and Next gives the same ticket. An error of a task is a
// [*TaskError]. After the failure of a device, or half an update, the runtime
// is unusable, and all further steps fail likewise; otherwise Step may be
// called again.
func (p *Program) Step(ctx context.Context, b Batch) (Ticket, error) {
	e, err := p.fit(b)
	if err = cmp.Or(err, p.rt.usable(), ctx.Err()); err != nil {
		return 0, err
	}
	ticket := p.Next()
	f := &p.inflight[ticket%ahead]
	if f.e != nil {
		if err := p.Wait(ctx, f.ticket); err != nil {
			return 0, err
		}
	}
	p.depart(f, ticket, e)
	if err := p.queueAll(ctx, f, b); err != nil {
		return 0, p.abort(f, err)
	}
	p.steps++
	for _, s := range p.rt.compute {
		f.done = append(f.done, s.Record())
	}
	return ticket, nil
}

// depart enters a step among those under way.
func (p *Program) depart(f *flight, ticket Ticket, e *expansion) {
	p.rt.steps++
	p.rt.expect(e)
	f.ticket, f.order, f.e, f.done = ticket, p.rt.steps, e, f.done[:0]
	for _, t := range e.tasks {
		t.events[ticket%ahead] = device.Event{}
	}
}

// queueAll feeds the batch and queues every task. The Update phase is not
// interrupted: half an update would be worse than waiting.
func (p *Program) queueAll(ctx context.Context, f *flight, b Batch) error {
	for i := range f.e.feeds {
		feed := &f.e.feeds[i]
		view := &feed.views[f.ticket%ahead]
		*view = *device.NewHostView(b.Fields[feed.field], feed.from, feed.bytes)
		if err := p.rt.Residency.Feed(feed.tensor, view); err != nil {
			return err
		}
	}
	for _, t := range f.e.tasks {
		if t.updates {
			if err := ctx.Err(); err != nil {
				return p.failed(f, t, err)
			}
			ctx = context.Background()
		}
		if err := p.queue(ctx, f, t); err != nil {
			return p.failed(f, t, err)
		}
	}
	return nil
}

// Wait blocks until a step is over. If it failed, the error names the first
// task that did, of this step or of one before it. A ticket that was waited
// for already, or never given, returns at once. If ctx ends first, the step
// goes on, and can be waited for again.
func (p *Program) Wait(ctx context.Context, t Ticket) error {
	f := &p.inflight[t%ahead]
	if f.ticket != t || f.e == nil {
		return nil
	}
	for _, ev := range f.done {
		if err := ev.Wait(ctx); err != nil {
			if !ev.Done() {
				return err
			}
			return p.rt.fail(err)
		}
	}
	f.e = nil
	return nil
}

// Drain waits for everything that was queued, the older step first.
func (p *Program) Drain(ctx context.Context) error {
	next := p.Next()
	for i := range Ticket(ahead) {
		if f := &p.inflight[(next+i)%ahead]; f.e != nil {
			if err := p.Wait(ctx, f.ticket); err != nil {
				return err
			}
		}
	}
	return nil
}

// fit finds the step that a batch takes.
func (p *Program) fit(b Batch) (*expansion, error) {
	if len(b.Fields) != len(p.inputs) {
		return nil, fmt.Errorf("%w: it has %d fields, the program %d inputs", ErrBatch, len(b.Fields), len(p.inputs))
	}
	e, err := p.sized(b.Samples)
	if err != nil {
		return nil, err
	}
	for i, hb := range b.Fields {
		if hb == nil {
			return nil, fmt.Errorf("%w: field %d (%s) is nil", ErrBatch, i, p.inputs[i].Name)
		}
		if have := int64(len(hb.Bytes())); have < e.bytes[i] {
			return nil, fmt.Errorf("%w: field %d (%s) has %d bytes, %d samples take %d",
				ErrBatch, i, p.inputs[i].Name, have, b.Samples, e.bytes[i])
		}
	}
	return e, nil
}

// sized finds the step that takes that many samples.
func (p *Program) sized(samples int) (*expansion, error) {
	for _, e := range p.sizes {
		if e.samples == samples {
			return e, nil
		}
	}
	text := fmt.Sprint(p.sizes[0].samples)
	if len(p.sizes) > 1 {
		text += fmt.Sprintf(", an epoch's last %d", p.sizes[1].samples)
	}
	return nil, fmt.Errorf("%w: %d samples; a step takes %s", ErrBatch, samples, text)
}
