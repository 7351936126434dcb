package executor

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
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
