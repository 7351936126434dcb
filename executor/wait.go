package executor

import (
	"context"
)

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
	f.e = nil
	return nil
}

// Tell sends id on over once a step that was queued has ended, however it ended: Wait
// returns at once then. The caller receives it before it waits for the step.
func (p *Program) Tell(t Ticket, over chan<- int, id int) {
	done := p.inflight.of(t).done
	go func() {
		for _, ev := range done {
			_ = ev.Wait(context.Background()) // Wait gives the failure
		}
		over <- id
	}()
}

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
