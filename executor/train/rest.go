package train

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-ml/berth/executor"
)

// rest stands still while somebody has suspended the run, or while others take their turn with its memory: what is queued
// ends first, and before a suspension a save under way. It returns once the run has its memory again, and with
// executor.ErrSuspended once ctx ends, or no time for a step is left.
func (l *loop) rest(ctx context.Context) error {
	if !l.a.rt.MustRest() {
		return nil
	}
	if err := l.settle(context.WithoutCancel(ctx), 0); err != nil {
		return err
	}
	l.stopClock()
	defer l.beginClock()
	return l.a.rt.RestWith(ctx, l.asleep)
}

// endSave waits for the save under way, and gives its memory to others.
func (l *loop) endSave() error {
	err := l.a.saves.Await()
	l.freeStaging()
	return err
}

// freeStaging gives the memory of a save to others while the run stands still.
func (l *loop) freeStaging() {
	l.a.saves.Free()
	l.reserved = false
}

// asleep waits until the run may go on, and saves meanwhile where somebody asks for that. A save goes on while others have
// their turn, and ends before the run is suspended.
func (l *loop) asleep(ctx context.Context, opens <-chan struct{}) error {
	var over <-chan time.Time
	if g := l.a.goal; g.maxTime > 0 {
		t := time.NewTimer(time.Until(g.began.Add(g.maxTime)) - l.nextStep())
		defer t.Stop()
		over = t.C
	}
	for {
		select {
		case <-opens:
			return nil
		case <-l.a.saves.Ends():
			if err := l.endSave(); err != nil {
				return err
			}
		case <-ctx.Done():
			return executor.EndedAtRest(ctx)
		case <-over:
			return fmt.Errorf("%w: %w", executor.ErrSuspended, timeUp(l.a.goal.maxTime))
		case _, ok := <-l.saveNow:
			if err := l.saveAsked(context.WithoutCancel(ctx), ok); err != nil {
				return err
			}
		}
	}
}

// saveAsked takes a checkpoint of where the run stands still, unless the newest one is of that. ok is false
// once nobody can ask any more.
func (l *loop) saveAsked(work context.Context, ok bool) error {
	if !ok {
		l.saveNow = nil
		return nil
	}
	if err := l.endSave(); err != nil { // it may be of this step
		return err
	}
	if at := &l.a.at; at.Saved == at.Step && at.Step > 0 && !l.replaced {
		l.a.opt.Observer.note(fmt.Sprintf("step %d is saved already", at.Step))
		return nil
	}
	l.a.opt.Observer.note(fmt.Sprintf("saving at step %d, as asked", l.a.at.Step))
	if err := l.save(work); err != nil {
		return err
	}
	return l.endSave()
}
