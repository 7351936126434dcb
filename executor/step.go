package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// Ticket numbers a queued step, from 1.
type Ticket uint64

// ahead is the most steps of a program under way: one runs, the next is queued.
const ahead = 2

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
// may be called again. With [Ranks], the others take the step: once it has begun, every
// error makes the runtime unusable.
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
	if p.rebalance() {
		if e, err = p.fit(b); err != nil {
			return 0, err
		}
	}
	p.rt.rest.turn.step()
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
	if x := p.rt.exchange; x != nil {
		x.senders = e.exchange.Senders(x.holders, x.senders[:0])
	}
	if err := p.queueAll(ctx, f, b); err != nil {
		return 0, p.abort(f, err)
	}
	p.steps++
	p.latest = e
	for _, s := range p.rt.compute {
		f.done = append(f.done, s.Record())
	}
	f.done = p.rt.exchange.ends(p.rt.Residency.PeerCopies(f.done))
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
	for _, t := range f.e.stale {
		if err := p.rt.Residency.Drop(t); err != nil {
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
	if t.message != nil {
		return p.queueMessage(ctx, f, t)
	}
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
	err = m.Release(&t.lease, done)
	if tell := p.rt.launched; tell != nil {
		x := Launched{Event: done, Net: f.e.net, Step: f.ticket, Task: t.name, Kinds: t.kinds, Call: t.call}
		if p.rt.reads && err == nil {
			x.Results = p.results(ctx, t, done)
		}
		tell(x)
	}
	if err != nil {
		return err
	}
	return p.dropAll(t)
}

// Wait blocks until a step is over. If the step failed, the error names the first
// task that failed, in this step or one before it. Wait returns at once for a
// ticket that was waited for already or was never given. If ctx ends first, the
// step goes on and can be waited for again.
func (p *Program) Wait(ctx context.Context, t Ticket) error {
	f := p.inflight.of(t)
	if f.ticket != t || f.e == nil {
		return nil
	}
	for _, ev := range f.done {
		if err := ev.Wait(ctx); err != nil && !ev.Done() {
			return err
		}
		if err := ev.Err(); err != nil { // ctx may have ended at the same time
			return p.rt.fail(err)
		}
		p.rt.Residency.Passed(ev)
	}
	p.measure(f)
	f.e = nil
	p.rt.rest.turn.stepped()
	return nil
}

// Ends are the events after which a step that was queued has ended, however it ended:
// Wait returns at once then. They are valid until the step is waited for.
func (p *Program) Ends(t Ticket) []device.Event { return p.inflight.of(t).done }

// Drain waits for everything that was queued, the older step first.
func (p *Program) Drain(ctx context.Context) error {
	next := p.Next()
	for i := range Ticket(ahead) {
		if f := p.inflight.of(next + i); f.e != nil {
			if err := p.Wait(ctx, f.ticket); err != nil {
				return err
			}
		}
	}
	return nil
}

// Next is the ticket that the next call of Step will give.
func (p *Program) Next() Ticket { return Ticket(p.steps + 1) }

// flight is a step that has been queued and not been waited for yet. The program's flights keep
// it, and reuse it for the step after the next one.
type flight struct {
	ticket Ticket
	order  uint64 // among the steps of all programs
	e      *expansion
	done   []device.Event // of all tasks queued, per device, then of the copies between devices
}

// flights are the last steps of a program. A step that is over has no e.
type flights [ahead]flight

// of is the flight of a ticket. Until the step departs, it is still that of the
// step with the ticket t-ahead.
func (f *flights) of(t Ticket) *flight { return &f[t%ahead] }

// slot is the index of the step in lists of ahead entries, such as task.events.
func (f *flight) slot() int { return int(f.ticket % ahead) }

// depart begins a step. Nothing of it is queued yet.
func (f *flight) depart(t Ticket, order uint64, e *expansion) {
	f.ticket, f.order, f.e, f.done = t, order, e, f.done[:0]
	for _, t := range e.tasks {
		t.events[f.slot()] = device.Event{}
	}
}

// failed words the failure err of a task of the step.
func (f *flight) failed(t *task, err error) error {
	e := &TaskError{
		Net: f.e.net, Step: f.ticket, Task: t.name, Device: t.device, Microbatch: t.microbatch,
		Action: t.action, Schedule: f.e.schedule, Err: err,
	}
	if t.message == nil {
		e.launch = t.exe.Graph().Name
	}
	return e
}

// firstFailure is the failure of the first task that failed, nil if none did. A failure ends all
// messages of the rank, also of tasks before it: these come last.
func (f *flight) firstFailure() (first error) {
	for _, t := range f.e.tasks {
		cause := t.events[f.slot()].Err()
		switch {
		case cause == nil || first != nil && errors.Is(cause, ranks.ErrEnded):
		case errors.Is(cause, ranks.ErrEnded):
			first = f.failed(t, cause)
		default:
			return f.failed(t, cause)
		}
	}
	return first
}

// halfUpdated reports whether a part of the update was queued.
func (f *flight) halfUpdated() bool {
	for _, t := range f.e.tasks {
		if t.updates && t.events[f.slot()] != (device.Event{}) {
			return true
		}
	}
	return false
}
