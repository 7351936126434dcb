package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/hosttensor"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/internal/errs"
)

// Training is a run whose steps the program takes one by one: between those of other
// runs, or in an order of its own. [Run.Train] takes the same steps: weights, metrics,
// checkpoints and resuming are the same.
//
//	t, err := run.Start(ctx, train.Options{Dir: "runs/mine"})
//	…
//	defer t.Close()
//	for t.More() {
//		if err := t.Step(ctx); err != nil { … }
//	}
//	report, err := t.Finish(ctx)
//
// After a step that fails, Close is left, and the run can be resumed from its newest
// checkpoint. One goroutine uses a Training at a time. While the run is suspended, Step and
// the methods that compute something wait, until their context ends; the others work.
type Training struct {
	loop   *loop
	cancel context.CancelFunc // of the context that opened the attempt
	leave  func()             // lets another call use the run
	batch  *Batch             // that Next gave
	ended  error              // the reason that no more steps are taken; nil: they are
	within bool               // a call is under way: an observer's function may make another
}

// Batch is the samples of a step, in the memory from which the device copies them. They
// may be overwritten before the step, such as with the outputs of another model.
type Batch struct {
	Samples int           // fewer than train.batch at an epoch's end only
	Input   *tensor.Dense // [Samples, …]
	// Lengths is, of samples with different lengths, the number of positions of each that
	// are no padding, [Samples]; otherwise nil.
	Lengths *tensor.Dense
	// Positions is, of samples of several conversations, the position of each token in its own,
	// [Samples, T]; otherwise nil.
	Positions *tensor.Dense
	Target    *tensor.Dense // [Samples, …]; classes are [Samples]
}

var errFinished = errs.With(errors.New("the training has ended: to continue it, call Start again with TrainOptions.Resume"), errs.ErrClosed)

// Start opens a training: it copies the weights in, and takes no step. On shared devices
// it waits until the memory for its floor is free, which trainings that are open may keep;
// the end of ctx ends the waiting. A device that is
// lost ends it, whatever devices.on_device_loss says. The caller closes it; until then
// every other call of the run fails with errs.ErrInUse.
func (r *Run) Start(ctx context.Context, o Options) (_ *Training, err error) {
	if r.now.session.Crew() != nil {
		return nil, fmt.Errorf("%w: several processes train together, and take their steps by themselves: call Train", errs.ErrOptions)
	}
	free, err := r.now.session.Keep()
	if err != nil {
		return nil, err
	}
	traced := r.tracing.begin()
	leave := func() { traced(); free() }
	pass, err := r.Gate().Enter(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	defer pass()
	o = o.begun()
	s := (&attempts{run: r, opt: o}).next()
	s.fetches = true
	limited, cancel := o.InTime(context.WithoutCancel(ctx))
	s.ending = limited.Done()
	t := &Training{cancel: cancel, leave: leave}
	opened := false
	defer func() {
		if !opened {
			if t.loop != nil {
				t.loop.leave()
			}
			err = s.outcome(err)
			closing := s.close()
			if errors.As(err, new(*DeviceError)) {
				closing = executor.Unrelated(closing)
			}
			err = errors.Join(err, closing)
			cancel()
			leave()
		}
	}()
	if t.loop, err = s.begin(ctx); err != nil {
		return nil, err
	}
	inTime, end := o.InTime(ctx)
	defer end()
	s.rt.RestUntil(inTime)
	if err := t.loop.begin(context.WithoutCancel(ctx)); err != nil {
		return nil, t.loop.fail(ctx, err)
	}
	opened = true
	r.Gate().SetIdle(t.idle)
	return t, nil
}

// enter begins a call, while nobody has the training stand still between two. ctx ends that, and standing
// still within the call.
func (t *Training) enter(ctx context.Context) (leave func(), err error) {
	return t.enterUntil(ctx, ctx)
}

// enterUntil is enter with another context that ends standing still within the call.
func (t *Training) enterUntil(ctx, rest context.Context) (leave func(), err error) {
	if t.within {
		return func() {}, nil
	}
	a := t.loop.a
	pass, err := a.run.Gate().Enter(ctx)
	if err != nil {
		return nil, err
	}
	inTime, end := a.opt.InTime(rest)
	a.rt.RestUntil(inTime)
	t.within = true
	return func() {
		t.within = false
		end()
		pass()
	}, nil
}

// rest stands still while the run is suspended.
func (t *Training) rest(ctx context.Context) error {
	if t.ended != nil {
		return nil
	}
	err := t.loop.rest(ctx)
	if err != nil && !errors.Is(err, executor.ErrSuspended) {
		err = t.fail(ctx, err)
	}
	return err
}

// idle stands still between two calls, on behalf of a goroutine that suspends the run. It calls no
// observer: the next call finds failures and the end of a save, and tells them.
func (t *Training) idle() {
	l := t.loop
	_ = l.settle(context.Background(), 0)
	l.stopClock()
	l.a.saves.Settle()
	l.freeStaging()
	l.a.rt.Stand()
}

// Steps is the number of steps that the run has queued, also before this call. After an
// error of a step, those from the one that the error names on have changed no weights.
func (t *Training) Steps() int { return t.loop.a.at.Step }

// More reports whether a step is left to take, and time for it: until the config's
// length, MaxSteps, MaxTime, early stopping, or a function Inspect that returned ErrEnd.
func (t *Training) More() bool {
	if leave, err := t.enter(context.Background()); err == nil {
		defer leave()
	}
	return t.more()
}

func (t *Training) more() bool {
	l := t.loop
	return t.ended == nil && !l.a.goal.reached(&l.a.at) && !l.a.goal.lacks(l.nextStep)
}

// Next waits for the samples of the next step: those that Step takes then. They may be
// overwritten until Step. It is not needed before Step. io.EOF says that no step is left.
func (t *Training) Next(ctx context.Context) (*Batch, error) {
	if t.batch != nil {
		return t.batch, nil
	}
	leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := t.next(ctx); err != nil {
		return nil, err
	}
	l := t.loop
	b := *l.batch
	out := &Batch{Samples: b.Samples}
	fields, memory := t.loop.a.run.Data.Train.Shapes(b.Bucket), l.a.feed.Memory(b)
	into := []**tensor.Dense{&out.Input, &out.Target}
	if len(fields) == 3 {
		into = []**tensor.Dense{&out.Input, &out.Lengths, &out.Target}
	}
	if len(fields) == 4 {
		into = []**tensor.Dense{&out.Input, &out.Lengths, &out.Positions, &out.Target}
	}
	for i, to := range into {
		m := fields[i].Meta
		m.Shape = append([]int{b.Samples}, m.Shape...)
		var err error
		if *to, err = hosttensor.Over(m, memory[i]); err != nil {
			return nil, err
		}
	}
	t.batch = out
	return out, nil
}

// next waits for the samples of the next step.
func (t *Training) next(ctx context.Context) error {
	switch err := context.Cause(ctx); {
	case t.ended != nil:
		return t.ended
	case err != nil:
		return err
	case !t.more():
		return io.EOF
	}
	err := t.loop.next(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		err = t.fail(ctx, err)
	}
	return err
}

// Step queues a step; it runs while the program goes on. After it, a boundary, a log, a
// checkpoint and Observer.Inspect come where the config and the observer ask for them.
// It fails with io.EOF where no step is left, and with ctx's cause, before the step, where
// ctx has ended. Where ctx ends while the evaluation of a boundary is suspended, the step is taken, and
// the next one begins with that evaluation.
func (t *Training) Step(ctx context.Context) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := t.rest(ctx); err != nil && !errors.Is(err, executor.ErrSuspended) {
		return err
	}
	if err := t.catchUp(ctx); err != nil {
		return err
	}
	if err := t.next(ctx); err != nil {
		return err
	}
	if err := t.checkBatch(); err != nil {
		return err
	}
	t.batch = nil
	work := context.WithoutCancel(ctx)
	err = t.loop.take(work)
	own, ok := errors.AsType[*observerError](err)
	switch {
	case err == nil || errors.Is(err, executor.ErrSuspended):
		return err
	case ok && errors.Is(own.err, ErrEnd):
		t.ended = io.EOF
		return nil
	}
	return t.fail(ctx, endedBy(err, func() error { return t.loop.end(work) }))
}

// catchUp evaluates at the boundary of the last step, where that was suspended when its context ended.
func (t *Training) catchUp(ctx context.Context) error {
	if t.ended != nil {
		return nil
	}
	err := t.loop.catchUp(context.WithoutCancel(ctx))
	if err != nil && !errors.Is(err, executor.ErrSuspended) {
		err = t.fail(ctx, err)
	}
	return err
}

// checkBatch refuses ids that the program may have written into the batch and that the
// model has no room for. The program may mend them, and take the step then.
func (t *Training) checkBatch() error {
	if t.batch == nil {
		return nil
	}
	var fields [][]byte
	for i, memory := range t.loop.a.feed.Memory(*t.loop.batch) {
		n := t.loop.a.run.Data.Train.Shapes(t.loop.batch.Bucket)[i].Meta.Bytes() * int64(t.batch.Samples)
		fields = append(fields, memory[:n])
	}
	if err := t.loop.a.run.Data.Info.CheckIDs(fields); err != nil {
		return fmt.Errorf("%w: the batch of step %d: %w", errs.ErrData, t.Steps()+1, err)
	}
	return nil
}

// fail ends the training with an error of a step, which later calls repeat.
func (t *Training) fail(ctx context.Context, err error) error {
	err = t.loop.a.outcome(t.loop.fail(ctx, err))
	t.ended = fmt.Errorf("the training has ended: %w", err)
	return err
}

// Fetch waits for the steps so far, and copies a variable out, as [Inspection.Fetch]
// does.
func (t *Training) Fetch(ctx context.Context, name string) (value *tensor.Dense, err error) {
	err = t.stand(ctx, func() error {
		value, err = t.loop.a.fetch(ctx, name)
		return err
	})
	return value, err
}

// Replace waits for the steps so far, and gives a variable other contents, such as those
// of another model, which are copied in at once. value has the variable's elements, in
// any shape. Weights beside which an adapter is trained are refused.
func (t *Training) Replace(ctx context.Context, name string, value *tensor.Dense) error {
	m, b, err := hosttensor.Bytes(value)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errs.ErrOptions, name, err)
	}
	want, ok := t.loop.a.variable(name)
	switch {
	case !ok:
		return t.loop.a.noVariable(name)
	case t.loop.a.ofBase(name):
		return fmt.Errorf("%w: %s stays as it is: an adapter trains beside it, no checkpoint has it, and other runs may share it; begin a run with other weights (Init)", errs.ErrOptions, name)
	case m.DType != want.DType || m.Elems() != want.Elems():
		return fmt.Errorf("%w: %s is %v, but the value is %v: give a value of the same type with as many elements", errs.ErrOptions, name, want, m)
	}
	return t.compute(ctx, func() error {
		boundary.Unseal(t.loop.a.rt.Residency)
		defer t.loop.a.seal()
		t.loop.replaced = true
		_, err := t.loop.a.prog.Replace(ctx, name, b)
		return err
	})
}

// CopyFrom replaces variables by those of the same names of another training, through
// the host. Without names, these are the parameters that both have, but for those that Replace refuses.
func (t *Training) CopyFrom(ctx context.Context, other *Training, names ...string) error {
	if other == nil {
		return fmt.Errorf("%w: the training to copy from is nil: pass one", errs.ErrOptions)
	}
	if len(names) == 0 {
		names = t.sharedWith(other)
	}
	for _, name := range names {
		value, err := other.Fetch(ctx, name)
		if err != nil {
			return err
		}
		if err := t.Replace(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

// sharedWith names the parameters that both trainings have, without those beside which t trains an adapter.
func (t *Training) sharedWith(other *Training) (names []string) {
	for _, v := range other.loop.a.session.Plan.Graph.Vars {
		name := v.Whole().Name
		if _, ok := t.loop.a.variable(name); ok && v.Role == graph.Parameter && !t.loop.a.ofBase(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// compute is stand for work that needs device memory: while the run is suspended, it stands still.
func (t *Training) compute(ctx context.Context, f func() error) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := t.rest(ctx); err != nil {
		return err
	}
	return t.stand(ctx, f)
}

// stand waits for the steps so far, and calls f. Its time is not one of steps.
func (t *Training) stand(ctx context.Context, f func() error) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if t.ended != nil && !errors.Is(t.ended, io.EOF) {
		return t.ended
	}
	l := t.loop
	if err := l.settle(context.WithoutCancel(ctx), 0); err != nil {
		return t.fail(ctx, err)
	}
	l.stopClock()
	defer l.beginClock()
	return f()
}

// Predict waits for the steps so far, and computes the model's outputs for samples, a
// tensor of [n, …], with the weights of now, or their averages by train.ema: [n, outputs], and [n, positions, outputs] of
// a sequence. Samples are as in Batch.Input. Outputs of a classifier are probabilities.
func (t *Training) Predict(ctx context.Context, samples *tensor.Dense) (out *tensor.Dense, err error) {
	err = t.compute(ctx, func() error {
		out, err = t.loop.a.predict(ctx, samples)
		return err
	})
	return out, err
}

// Activations waits for the steps so far, and computes the outputs of a layer for
// samples, as [Inspection.Activations] does. nil means the samples of the last step, as
// the data has them, and is refused before the first.
func (t *Training) Activations(ctx context.Context, layer string, samples *tensor.Dense) (out *tensor.Dense, err error) {
	err = t.compute(ctx, func() error {
		out, err = t.loop.a.activations(ctx, layer, samples)
		return err
	})
	return out, err
}

// Save waits for the steps so far, and takes a checkpoint of them. It is on the disk
// when Save returns.
func (t *Training) Save(ctx context.Context) error {
	leave, err := t.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	l := t.loop
	var saving error
	err = t.stand(ctx, func() error {
		if saving = l.save(ctx); saving == nil {
			saving = l.a.saves.Await()
		}
		return saving
	})
	if saving != nil {
		return t.fail(ctx, saving)
	}
	return err
}

// Finish waits for the steps so far, saves, and returns the report. A run that has steps
// left can be resumed. Where ctx has ended, it saves all the same, and takes no evaluation for which the run would
// have to wait while it is suspended.
func (t *Training) Finish(ctx context.Context) (*Report, error) {
	leave, err := t.enterUntil(context.WithoutCancel(ctx), ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if t.ended != nil && !errors.Is(t.ended, io.EOF) {
		return nil, t.ended
	}
	if err := t.catchUp(ctx); err != nil && !errors.Is(err, executor.ErrSuspended) {
		return nil, err
	}
	t.ended = errFinished
	work := context.WithoutCancel(ctx)
	if err := errors.Join(t.loop.end(work), t.loop.a.closeAnswers()); err != nil {
		return nil, t.fail(work, err)
	}
	rep, err := t.loop.a.ended(ctx, t.loop)
	return rep, t.loop.a.outcome(err)
}

// CheckOpen refuses a training that is closed.
func (t *Training) CheckOpen() error {
	if t.leave == nil {
		return errFinished
	}
	return nil
}

// Close gives back all that the training holds. It saves nothing: see Finish. A nil
// Training holds nothing.
func (t *Training) Close() error {
	if t == nil || t.leave == nil {
		return nil
	}
	leave, err := t.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	t.loop.a.run.Gate().SetIdle(nil)
	t.ended = errFinished
	t.loop.leave()
	err = errors.Join(t.loop.a.closeAnswers(), t.loop.a.close())
	t.cancel()
	t.leave()
	t.leave = nil
	return err
}
