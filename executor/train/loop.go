package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/residency/ledger"
)

// loop is the steps of one call of Train. A step is queued while the one before
// it runs; logging, saving and evaluating wait for both.
type loop struct {
	a       *attempt
	clock   trace.Clock
	first   int             // steps taken before this call
	between time.Duration   // the longest that training stood still between two steps: logging, evaluating and saving
	saved   time.Time       // when the newest save began, or the loop
	watch   *boundary.Watch // nil: nobody watches, or another rank does
	news    *news           // of what is seen on another rank; nil: rank 0 has the losses, or nobody watches
	pilot   *crew.Pilot     // nil: this process decides by itself
	orders  crew.Orders     // of the pilot, about the newest step
	looked  int             // newest step whose loss a look has shown
	leisure context.Context // ends when someone wants the run to end soon
	hurry   func()          // ends leisure; nil before begin
	batch   *datasets.Batch // of the step to come; nil: it is not read yet
	traced  *tracedStep     // that runs; nil: none does
	told    toldMoves

	before [3]runstate.Progress // where the run stood before the newest steps

	replaced bool                  // a variable was, since the newest checkpoint
	reserved bool                  // the next save has its memory
	saveNow  <-chan struct{}       // Options.SaveNow; nil once that is closed
	phase    atomic.Pointer[phase] // with ranks, what this one does
	samples  *crew.Samples         // with ranks, whom this one waits for; nil without, and before begin
}

// run takes steps until there are no more, or someone wants to stop: ctx, the time
// that is left, or the observer.
func (l *loop) run(ctx context.Context) (stopped bool, err error) {
	// A cancelled ctx ends the run between steps: the one under way is finished.
	work := context.WithoutCancel(ctx)
	defer l.leave()
	if err := l.begin(ctx); err != nil {
		return l.ends(work, err)
	}
	for !l.a.goal.reached(&l.a.at) {
		if !l.stops(ctx) {
			if err := l.rest(ctx); err != nil && !errors.Is(err, executor.ErrSuspended) {
				return false, err
			}
		}
		if l.stops(ctx) {
			l.hurry()
			return true, l.end(work)
		}
		err := l.nextOfAll(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && ctx.Err() != nil && l.pilot == nil { // the data is slow, and someone wants to stop
			continue
		}
		if err == nil && l.a.rt.MustRest() { // the data was slow
			continue
		}
		if err == nil {
			err = l.take(work)
		}
		if err != nil {
			return l.ends(work, err)
		}
	}
	return false, l.end(work)
}

// ends ends the run with an error of a step. It stops, saved, where ctx or the time ended while an
// evaluation stood still: the resumed run begins with that.
func (l *loop) ends(work context.Context, err error) (stopped bool, _ error) {
	if errors.Is(err, executor.ErrSuspended) {
		l.hurry()
		return true, l.end(work)
	}
	return false, endedBy(err, func() error { return l.end(work) })
}

// begin readies the first step. Where a checkpoint lacks the evaluation of its boundary,
// that comes first.
func (l *loop) begin(ctx context.Context) error {
	l.leisure, l.hurry = context.WithCancel(ctx)
	l.first, l.a.done = l.a.at.Step, l.a.at.Step
	if c := l.a.crew(); c != nil {
		l.pilot = c.NewPilot()
		l.tellDoing()
	}
	l.beginWatch()
	l.a.dump.From(l.first)
	l.a.seal()
	l.saved = time.Now()
	l.beginClock()
	return l.catchUp(context.WithoutCancel(ctx))
}

// beginWatch watches the losses on the rank that has them, which sends what it sees to rank 0.
func (l *loop) beginWatch() {
	every, of, c := l.a.session.Config.Train.Watch, l.a.prog.Holder(models.LossRing), l.a.crew()
	if every == 0 {
		return
	}
	if c.Rank() == of {
		l.watch = l.a.rings().NewWatch(models.LossRing, every)
	}
	switch {
	case of == 0:
	case l.a.leads():
		l.news = &news{transport: c.Transport(), peer: of}
	case l.watch != nil:
		l.news = &news{transport: c.Transport()}
	}
}

// catchUp does the work of a boundary whose evaluation is missing.
func (l *loop) catchUp(ctx context.Context) error {
	if !l.a.at.Unmeasured {
		return nil
	}
	l.stopClock()
	defer l.beginClock()
	return l.stand(ctx, due{boundary: true, save: l.savesNow(true)})
}

// leave ends what begin began.
func (l *loop) leave() {
	if l.hurry != nil {
		l.hurry()
	}
	l.endTrace("the step that was traced did not end well")
	l.watch.Close()
	l.samples.End()
}

// next waits for the data's next batch; io.EOF says that there is none.
func (l *loop) next(ctx context.Context) (err error) {
	if l.batch != nil {
		return nil
	}
	b, err := l.a.feed.Next(ctx)
	if err == nil {
		l.batch = &b
	}
	return err
}

// stops reports whether the run is to stop where it stands.
func (l *loop) stops(ctx context.Context) bool {
	if l.pilot != nil {
		return l.orders.Stop
	}
	return ctx.Err() != nil || l.a.goal.lacks(l.nextStep)
}

// nextOfAll is next. With ranks, nobody stops before the step that all take, and all hear what comes after it.
func (l *loop) nextOfAll(ctx context.Context) error {
	if l.pilot == nil {
		return l.next(ctx)
	}
	work := context.WithoutCancel(ctx)
	l.enters(readingData)
	err := l.next(work)
	l.enters(steppingOn)
	if err != nil {
		return err
	}
	return l.pilot.Next(work, l.reckon(ctx))
}

// take takes a step on the batch that next has waited for, and does the work that is
// due after it.
func (l *loop) take(ctx context.Context) error {
	b := *l.batch
	l.batch = nil
	if err := l.step(ctx, b); err != nil {
		return err
	}
	return l.afterStep(ctx)
}

// nextStep is the time that another step and a save after it may take.
func (l *loop) nextStep() time.Duration {
	const unknown = 100e6 // bytes a second that a first save is taken to reach
	save := time.Duration(float64(l.a.session.StateBytes()) / unknown * float64(time.Second))
	return 2*l.clock.Longest() + max(2*l.between, 2*l.a.saves.Stats().Longest, save)
}

// step queues one step and settles the one before it.
func (l *loop) step(ctx context.Context, b datasets.Batch) error {
	l.traceNext()
	err := l.a.feed.Step(ctx, b)
	if err == nil && !l.reserved { // it runs meanwhile
		l.reserved, err = true, l.a.saves.Reserve(ctx)
	}
	if err != nil {
		return err
	}
	l.before[l.a.at.Step%len(l.before)] = l.a.at
	l.a.at.Advance(b, l.a.session.Sizes.Pace)
	l.a.rt.Residency.Ledger().Step()
	l.a.opt.Observer.step(Step{
		Step: l.a.at.Step, Epoch: b.At.Epoch, InEpoch: b.At.Index/l.a.session.Sizes.Batch + 1,
		Samples: b.Samples - b.Empty, Loss: math.NaN(), LearningRate: l.a.rate.At(l.a.at.Step - 1),
	})
	if err := l.look(ctx); err != nil {
		return err
	}
	l.predictTraced(ctx, b.Samples-b.Empty)
	return l.settle(ctx, 1)
}

// look shows the mean loss since the look before, if somebody watches and losses have
// come out. Losses since a boundary are in the ring; those before it were shown there.
func (l *loop) look(ctx context.Context) error {
	switch {
	case l.watch != nil:
	case l.news != nil:
		s, ok, err := l.news.hear()
		if err == nil && ok {
			l.show(s)
		}
		return err
	default:
		return nil
	}
	at, losses, ok, err := l.watch.After(ctx, l.a.at.Step)
	if err != nil || !ok || at <= max(l.a.at.Last.Step, l.a.at.Logged) { // it came out since
		return err
	}
	first := max(l.looked, l.first, l.a.at.Began, l.a.at.Lost)
	mean := losses.Mean(first, at, l.a.weight)
	if mean == nil || finite(*mean) == nil { // such a step fails where it is waited for
		return nil
	}
	switch s := (seen{at, at - first, *mean}); {
	case l.news == nil:
		l.show(s)
	case l.news.idle():
		l.news.send(s)
	default:
		return nil // these losses are a part of the next
	}
	l.looked = at
	return nil
}

// show tells the observer what was seen, unless a boundary has told since.
func (l *loop) show(s seen) {
	if s.over == 0 || s.at <= max(l.a.at.Last.Step, l.a.at.Logged) {
		return
	}
	epoch, inEpoch := l.a.at.PlaceOf(s.at, l.a.session.Sizes.Pace)
	l.a.opt.Observer.watched(Step{Step: s.at, Epoch: epoch, InEpoch: inEpoch, Loss: s.mean, Over: s.over, LearningRate: l.a.rate.At(s.at - 1)})
}

// settle waits for queued steps until only left of them remain.
func (l *loop) settle(ctx context.Context, left int) error {
	return l.a.feed.Settle(ctx, left, func(b datasets.Batch) error {
		l.a.done++
		l.enters(steppingOn)
		l.clock.Tick(b.Samples-b.Empty, l.a.rt.Worked())
		start, end := l.clock.Span()
		l.a.dump.Step(l.a.done, start, end)
		l.answerTraced()
		l.a.slowest.Store(int64(l.clock.Longest()))
		l.a.session.Debug().Step(l.a.at.Step-l.a.feed.Queued()+1, l.clock.Newest(), l.a.rt.Residency.Ledger(), l.a.session.Devices)
		return nil
	})
}

// afterStep does the work that is due after a step: that of a boundary, logging, a
// save.
func (l *loop) afterStep(ctx context.Context) (err error) {
	if l.pilot != nil {
		if l.orders, err = l.pilot.Orders(ctx); err != nil {
			return err
		}
	}
	if err := l.a.saves.Poll(); err != nil {
		return err
	}
	l.a.tellRetried()
	l.a.tellRefused()
	if !l.a.saves.Busy() {
		l.clock.Saving(false)
	}
	ends := l.a.at.AtBoundary(l.a.session.Sizes.Pace, l.a.goal.steps)
	d := due{
		boundary: ends, save: l.savesNow(ends),
		log:     l.a.session.Config.Train.LogEvery > 0 && l.a.at.Step%l.a.session.Config.Train.LogEvery == 0,
		inspect: l.a.opt.Observer.inspectsAt(l.a.at.Step, ends),
	}
	if d == (due{}) {
		return nil
	}
	if err := l.settle(ctx, 0); err != nil {
		return err
	}
	l.stopClock()
	start, stood := time.Now(), l.a.rt.Stood()
	err = l.stand(ctx, d)
	l.a.tellRetried()
	l.between = max(l.between, time.Since(start)-(l.a.rt.Stood()-stood))
	l.beginClock()
	return err
}

// due is the work for which training stands still after a step.
type due struct{ boundary, log, save, inspect bool }

// stand does the work that is due.
func (l *loop) stand(ctx context.Context, d due) (err error) {
	l.enters(evaluating)
	defer l.enters(steppingOn)
	var e *Boundary
	if d.boundary {
		l.tellMoves()
		e, err = l.boundary(ctx)
	} else if d.log {
		_, err = l.a.log(ctx, ledger.Log)
	}
	if d.save && err == nil {
		err = l.save(ctx)
	}
	if d.save && err == nil && d.boundary && l.a.session.Config.Train.Boundary == 0 { // an epoch's checkpoint is on the disk before the next epoch
		l.enters(saving)
		err = l.a.saves.Await()
	}
	if d.inspect && err == nil {
		err = l.a.inspect(ctx, e)
	}
	if d.boundary && err == nil {
		err = l.restage(ctx)
	}
	return err
}

// beginClock measures steps from now on.
func (l *loop) beginClock() {
	busy := l.a.rt.Busy()
	l.clock.Begin(len(busy), busy)
	l.a.session.Copies().Begin()
}

// stopClock measures nothing until beginClock.
func (l *loop) stopClock() {
	l.clock.Stop(l.a.rt.Busy())
	l.a.session.Copies().Stop()
}

// savesNow reports whether a checkpoint is due after this step, at a boundary or
// not.
func (l *loop) savesNow(boundary bool) bool {
	c := l.a.session.Config.Checkpoint
	switch {
	case l.pilot != nil && l.orders.Save, l.pilot == nil && l.asked():
		return true
	case c.Every > 0 && l.a.at.Step%c.Every == 0, l.pilot == nil && c.EveryTime > 0 && time.Since(l.saved) >= c.EveryTime:
		return true
	}
	return boundary && (c.Every == 0 && c.EveryTime == 0 || l.a.session.Config.Train.Boundary == 0)
}

// asked reports whether someone wants a checkpoint now.
func (l *loop) asked() bool {
	asked := l.askedFor()
	if asked {
		l.a.opt.Observer.note(fmt.Sprintf("saving at step %d, as asked", l.a.at.Step))
	}
	return asked
}

// askedFor is asked, and says nothing.
func (l *loop) askedFor() bool {
	select {
	case _, ok := <-l.saveNow:
		if !ok {
			l.saveNow = nil
		}
		return ok
	default:
		return false
	}
}

// boundary brings out the losses since the boundary before, evaluates and keeps the
// best. Everything queued is settled.
func (l *loop) boundary(ctx context.Context) (*Boundary, error) {
	boundary.Unseal(l.a.rt.Residency)
	defer l.a.seal()
	e := Boundary{Epoch: l.a.at.LastEpoch(), Step: l.a.at.Step, LearningRate: l.a.rate.At(l.a.at.Step - 1)}
	if err := l.a.measure(ctx, &e); err != nil {
		l.a.at.Unmeasured = l.a.at.Unmeasured || errors.Is(err, executor.ErrSuspended)
		return nil, err
	}
	e.SamplesPerS, e.Time = l.clock.Lap()
	if !l.a.leads() {
		return nil, l.a.follow(ctx)
	}
	first := l.a.at.Began == 0
	l.a.at.Take(e, l.a.session.Config)
	if err := l.a.journal.boundary(e); err != nil {
		return nil, err
	}
	if first {
		if err := l.a.warnFar(ctx, &e); err != nil {
			return nil, err
		}
	}
	if err := l.a.follow(ctx); err != nil {
		return nil, err
	}
	if w := l.a.at.Watched; l.a.at.StoppedEarly(l.a.session.Config.EarlyStopping) {
		of := "epochs"
		if l.a.session.Config.Train.Boundary > 0 {
			of = "boundaries"
		}
		text := fmt.Sprintf("%s has not improved for %d %s", w.Metric, w.Bad, of)
		if w.Best == nil {
			text = fmt.Sprintf("%s was not defined for %d %s: choose another metric, or validate on samples of every class", w.Metric, w.Bad, of)
		}
		l.a.opt.Observer.note("early stopping: " + text)
	}
	return &e, nil
}

// save takes a checkpoint of where the run stands. All queued work is settled.
func (l *loop) save(ctx context.Context) error {
	l.enters(saving)
	defer l.enters(steppingOn)
	l.saved, l.replaced = time.Now(), false
	m, err := l.a.manifest()
	if err == nil {
		err = l.a.saves.Save(ctx, l.leisure, m)
	}
	l.clock.Saving(l.a.saves.Busy())
	return err
}

// stood is where the run stood after one of the newest steps.
func (l *loop) stood(step int) (at runstate.Progress, ok bool) {
	if step == l.a.at.Step {
		return l.a.at, true
	}
	at = l.before[step%len(l.before)]
	return at, at.Step == step
}

// rescue saves the newest completed step after the loss of a device, if every
// variable is as at its end. Where that step ends at a boundary that was not
// evaluated, the resumed run begins with the evaluation.
func (l *loop) rescue(ctx context.Context) {
	ticket, err := l.a.prog.Whole()
	at, ok := l.stood(l.first + int(ticket))
	if err != nil || !ok || at.Step == 0 || at.Step == l.a.newest() {
		return
	}
	at.Unmeasured = at.AtBoundary(l.a.session.Sizes.Pace, l.a.goal.steps) && at.Last.Step != at.Step
	l.a.at = at
	m, err := l.a.manifest()
	if err == nil {
		err = l.a.saves.Rescue(ctx, m)
	}
	if _, lost := executor.LostDevice(err); err != nil && !lost { // a loss is told already
		l.a.opt.Observer.warn(fmt.Sprintf("step %d is whole, and could not be saved: %v", at.Step, err))
	}
}

// end settles, and logs and saves where the run stands, unless that was just
// done.
func (l *loop) end(ctx context.Context) error {
	if err := l.settle(ctx, 0); err != nil {
		return err
	}
	l.stopClock()
	l.tellMoves()
	l.enters(ending)
	if l.pilot != nil {
		if err := l.pilot.End(ctx); err != nil {
			return err
		}
		if err := l.news.end(ctx); err != nil {
			return err
		}
	}
	l.enters(saving)
	defer l.enters(ending)
	if err := l.a.saves.Await(); err != nil {
		return err
	}
	if l.a.at.Saved == l.a.at.Step && l.a.at.Step > 0 && !l.replaced {
		return nil
	}
	boundary.Unseal(l.a.rt.Residency) // the run ends here, so its losses come out
	if _, err := l.a.log(ctx, ledger.Epoch); err != nil {
		return err
	}
	if err := l.save(ctx); err != nil {
		return err
	}
	return l.a.saves.Await()
}
