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
// [Program.Inputs], its rows side by side. The buffers must stay as they are
// until the step's ticket was waited for.
type Batch struct {
	Samples int
	Fields  []device.HostBuffer
}

// Ticket stands for a queued step.
type Ticket uint64

// flight is a step that was queued and not yet waited for.
type flight struct {
	ticket Ticket
	e      *expansion
	done   []device.Event // per device
}

// ahead is how many steps may be under way: one may be queued while the one
// before it runs, no more.
const ahead = 2

// Next is the ticket that the next call of Step will give.
func (p *Program) Next() Ticket { return Ticket(p.steps + 1) }

// Step queues one step and returns before it ran. At most two steps are under
// way: the one before the last is waited for first. An error names the task.
func (p *Program) Step(ctx context.Context, b Batch) (Ticket, error) {
	e, err := p.expansionFor(b)
	if err != nil {
		return 0, err
	}
	p.steps++
	ticket, slot := Ticket(p.steps), int(p.steps%ahead)
	if f := &p.inflight[slot]; f.e != nil {
		if err := p.Wait(ctx, f.ticket); err != nil {
			return 0, err
		}
	}
	for _, f := range e.feeds {
		first := f.microbatch * p.microbatchSize()
		if err := p.rt.Residency.Feed(f.tensor, p.view(b.Fields[f.field], f.microbatch, first, f.value.Meta)); err != nil {
			return 0, fmt.Errorf("feeding %s: %w", f.value.Name, err)
		}
	}
	p.depart(ticket, slot, e)
	for _, t := range e.tasks {
		if err := p.queue(ctx, t, slot); err != nil {
			return 0, p.blame(err)
		}
	}
	p.record(slot)
	return ticket, nil
}

// blame finds what made queueing fail: a task under way that failed, if there
// is one, or else the error itself. Whatever still runs is waited for, so that
// the answer does not depend on timing.
func (p *Program) blame(err error) error {
	for i := range uint64(ahead) {
		f := &p.inflight[(p.steps+1+i)%ahead] // the older one first
		if f.e == nil {
			continue
		}
		for _, t := range f.e.tasks {
			// A failed wait is the answer itself, found below.
			_ = t.events[f.ticket%ahead].Wait(context.Background())
		}
		if cause := p.firstFailure(f); cause != nil {
			return cause
		}
	}
	return err
}

// depart enters a step among those under way.
func (p *Program) depart(ticket Ticket, slot int, e *expansion) {
	f := &p.inflight[slot]
	f.ticket, f.e, f.done = ticket, e, f.done[:0]
	for _, t := range e.tasks {
		t.events[slot] = device.Event{}
	}
}

// record notes what must happen before the step is over.
func (p *Program) record(slot int) {
	f := &p.inflight[slot]
	for _, s := range p.rt.compute {
		f.done = append(f.done, s.Record())
	}
}

// Wait blocks until a step is over. If it failed, the error names the first
// task that did. A ticket that was waited for already returns at once.
func (p *Program) Wait(ctx context.Context, t Ticket) error {
	slot := int(uint64(t) % ahead)
	f := &p.inflight[slot]
	if f.ticket != t || f.e == nil {
		return nil
	}
	for _, ev := range f.done {
		if err := ev.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return cmp.Or(p.firstFailure(f), err)
		}
	}
	f.e = nil
	return nil
}

// Drain waits for everything that was queued.
func (p *Program) Drain(ctx context.Context) error {
	for i := range uint64(ahead) {
		if t := p.steps + i + 1; t > ahead { // oldest first
			if err := p.Wait(ctx, Ticket(t-ahead)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TaskError is the failure of one task of a step.
type TaskError struct {
	Step       Ticket
	Task       string // "s1.F3"
	Device     device.ID
	Microbatch int
	Err        error
}

// Error names task and device.
func (e *TaskError) Error() string { return fmt.Sprintf("%s on %s: %v", e.Task, e.Device, e.Err) }

// Unwrap is what the device reported.
func (e *TaskError) Unwrap() error { return e.Err }

// firstFailure finds the task of a step that failed first, nil if none did.
// Tasks were queued so that whoever produces comes before whoever consumes,
// and what fails poisons what follows: the first in that order is the cause.
func (p *Program) firstFailure(f *flight) error {
	for _, t := range f.e.tasks {
		if cause := t.events[f.ticket%ahead].Err(); cause != nil {
			p.rt.cause = cause
			return &TaskError{Step: f.ticket, Task: t.name, Device: p.rt.Devices[t.dev].ID(), Microbatch: t.microbatch, Err: cause}
		}
	}
	return nil
}

func (p *Program) microbatchSize() int { return fedInputs(p.opt.Full.Graph)[0].Meta.Shape[0] }

// expansionFor finds the step that a batch of that size takes.
func (p *Program) expansionFor(b Batch) (*expansion, error) {
	if len(b.Fields) != len(p.Inputs()) {
		return nil, fmt.Errorf("%w: it has %d fields, the program %d inputs", ErrBatch, len(b.Fields), len(p.Inputs()))
	}
	return p.sized(b.Samples)
}

// sized finds the step that takes that many samples.
func (p *Program) sized(samples int) (*expansion, error) {
	for _, e := range p.expansions() {
		if p.samples(e) == samples {
			return e, nil
		}
	}
	return nil, fmt.Errorf("%w: %d samples; a step takes %d", ErrBatch, samples, p.samples(p.full))
}

// samples is how many a step has.
func (p *Program) samples(e *expansion) int {
	n := e.microbatches * p.microbatchSize()
	if e.tail {
		n += fedInputs(p.opt.Tail.Graph)[0].Meta.Shape[0] - p.microbatchSize()
	}
	return n
}
