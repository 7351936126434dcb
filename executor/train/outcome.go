package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/internal/errs"
)

// whole is train, and closes the attempt. Of a lost device, its loss is the only
// error.
func (a *attempt) whole(ctx context.Context) (rep *Report, err error) {
	limited, cancel := a.opt.InTime(ctx)
	defer cancel()
	a.ending = limited.Done()
	returned := false
	defer func() {
		a.cut(returned, err)
		closing := a.close()
		var lost *DeviceError
		if errors.As(err, &lost) {
			closing = executor.Unrelated(closing)
		}
		err = errors.Join(err, closing)
	}()
	rep, err = a.train(ctx)
	err = a.outcome(err)
	returned = true
	return rep, err
}

// outcome says of a failure whether it was the loss of a device, which is then given
// up, or of initial weights.
func (a *attempt) outcome(err error) error {
	if id, lost := executor.LostDevice(err); lost {
		a.written = a.session.GiveUp(a.rt, id, err)
		err = &DeviceError{Device: id, Step: a.failed, Saved: a.newest(), Err: err}
	}
	return a.lostWeights(err)
}

// lostWeights makes a WeightsError of a failed read of initial weights. Before the
// run has started, such a failure is a mistake of the call.
func (a *attempt) lostWeights(err error) error {
	var read *initial.ReadError
	if a.saves == nil || !errors.As(err, &read) {
		return err
	}
	return &WeightsError{Saved: a.newest(), Err: read.Err}
}

// train opens the attempt, runs the loop and makes the report.
func (a *attempt) train(ctx context.Context) (*Report, error) {
	l, err := a.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer a.stopTelling()
	limited, cancel := a.opt.InTime(ctx)
	defer cancel()
	a.rt.RestUntil(limited) // also in the evaluation of the test part, after the loop
	stopped, err := l.run(ctx)
	if err != nil {
		return nil, l.fail(ctx, err)
	}
	rep, unwritten := a.ended(ctx, l)
	if rep == nil || !stopped {
		return rep, unwritten
	}
	if unwritten != nil {
		a.opt.Observer.warn(unwritten.Error())
	}
	err = fmt.Errorf("%w at step %d of %d", errs.ErrStopped, a.at.Step, a.goal.steps)
	switch why := l.orders.Why; {
	case ctx.Err() != nil:
		err = errs.With(err, context.Cause(ctx))
	case why != "":
		err = fmt.Errorf("%w, since %s,", err, why)
	}
	return rep, err
}

// begin opens the attempt, and tells the observer how the run begins.
func (a *attempt) begin(ctx context.Context) (*loop, error) {
	if err := a.openInTime(ctx); err != nil {
		return nil, err
	}
	a.opt.Observer.started(Start{
		Epochs: a.session.Config.Train.Epochs, StepsPerEpoch: a.session.Sizes.Steps, Boundary: a.session.Config.Train.Boundary, Steps: a.goal.steps,
		Step: a.at.Step, Parameters: a.session.Parameters(), Trained: a.trained(), Stages: len(a.session.Plan.Stages), TokensPerSample: a.textTokens(),
	})
	for _, text := range a.notes() {
		a.opt.Observer.note(text)
	}
	l := &loop{a: a, saveNow: a.opt.SaveNow}
	a.rt.SetHalt(l.endSave) // also within an evaluation
	return l, nil
}

// trained is the number of the parameters that train.
func (a *attempt) trained() (n int64) {
	for _, v := range a.session.Plan.Graph.Vars {
		if a.run.optim.Trains(v) {
			n += int64(v.Meta.Elems())
		}
	}
	return n
}

// fail ends a loop whose step has failed: after the loss of a device, it saves the
// newest step that is whole. It returns the failure with what to do.
func (l *loop) fail(ctx context.Context, err error) error {
	l.a.tellRetried()
	if l.a.crew() != nil { // other ranks have the rest of the state
		if errors.Is(err, ranks.ErrEnded) { // since a step has failed, which says why
			err = cmp.Or(l.settle(context.WithoutCancel(ctx), 0), err)
		}
		return l.a.explained(err, l.first)
	}
	if _, lost := executor.LostDevice(err); lost {
		err = l.a.explained(err, l.first)
		if saving := executor.Unrelated(l.a.saves.Await()); saving != nil {
			l.a.opt.Observer.warn(saving.Error())
		}
		l.rescue(context.WithoutCancel(ctx))
		return err
	}
	saving := l.a.endSaves()
	return errors.Join(l.a.explained(err, l.first), saving)
}

// ended makes the report of a loop that ended well, and writes it. Where it cannot be
// written, it returns both the report and the error.
func (a *attempt) ended(ctx context.Context, l *loop) (*Report, error) {
	if err := a.endSaves(); err != nil {
		return nil, err
	}
	rep, err := a.finish(l)
	if errors.Is(err, executor.ErrSuspended) { // all is saved, and the resumed run takes the evaluation
		return nil, fmt.Errorf("%w at step %d of %d, before the last evaluation: %w", errs.ErrStopped, a.at.Step, a.goal.steps, err)
	}
	if err != nil {
		return nil, err
	}
	if text := a.session.Worse(rep.Final.Metrics, a.at.StoppedEarly(a.session.Config.EarlyStopping)); text != "" && a.leads() && a.goal.reached(&a.at) && a.warned != a.at.Step {
		a.opt.Observer.warn(text)
	}
	if !a.leads() {
		return rep, nil
	}
	if err := a.write(rep); err != nil {
		return rep, fmt.Errorf("the run is saved, but its report is not written: %w", err)
	}
	if moves, _ := a.prog.Moves(); len(a.losses) == 0 && moves.Others == 0 && a.restaged.count == 0 { // else steps were of several plans
		a.session.KeepRun(ctx, a.predicted, l.clock.Steps(), l.clock.Percentile(50)/1e3)
	}
	return rep, nil
}

// openInTime is open, unless ctx or the time ends before it does.
func (a *attempt) openInTime(ctx context.Context) error {
	ctx, cancel := a.opt.InTime(ctx)
	defer cancel()
	return beforeFirstStep(ctx, a.open(ctx))
}

// explained explains the failure of a step; first is the number of steps taken
// before this call.
func (a *attempt) explained(err error, first int) error {
	var task *executor.TaskError
	if !errors.As(err, &task) || task.Net != a.load.Net { // or it was between two steps
		return err
	}
	a.failed = first + int(task.Step)
	if a.crew() != nil { // nothing can be computed again: the others are at the same step
		if !errors.Is(err, device.ErrNonFinite) {
			return fmt.Errorf("step %d: %w", a.failed, err)
		}
		where := fmt.Sprintf("the loss is %v on %s", device.ErrNonFinite, task.Device)
		if nf, ok := errors.AsType[*device.NonFiniteError](err); ok && a.load.OpByOp {
			where = fmt.Sprintf("%s: %v", task.Device, nf)
		}
		return errs.With(fmt.Errorf("step %d: %s; %s", a.failed, where, a.lastGood()), err)
	}
	a.session.Debug().Failure(task)
	if unwritten := a.dump.Failure(a.failed, task); unwritten != nil {
		err = errors.Join(err, unwritten)
	}
	if _, lost := executor.LostDevice(err); lost {
		return err
	}
	read, batch, known := a.feed.Failed(task.Step)
	if known && errors.Is(err, device.ErrNonFinite) {
		if bad, found := a.badTraining(read); found {
			return fmt.Errorf("step %d: the loss is %w: %v", a.failed, device.ErrNonFinite, bad)
		}
	}
	f := failure{step: a.failed, batch: batch, known: known, hint: a.lastGood(), err: err, again: a.another}
	return explain(f, a.rt, a.prog, a.load)
}

// finish pulls the weights back, and makes the report. A call that found nothing
// to do has measured nothing, and repeats the measurements of the one before it.
func (a *attempt) finish(l *loop) (*Report, error) {
	ctx := context.Background()
	boundary.Unseal(a.rt.Residency)
	if !a.leads() {
		return l.finishBehind()
	}
	hash, err := boundary.WeightsHash(ctx, a.prog, a.crew())
	if err != nil {
		return nil, err
	}
	order, err := a.session.Schedule()
	if err != nil {
		return nil, err
	}
	predicted, err := a.session.Predict(ctx)
	if err != nil {
		return nil, err
	}
	a.predicted = predicted
	final, err := a.final(ctx)
	if err != nil {
		return nil, err
	}
	test, err := a.test(ctx, hash)
	if err != nil {
		return nil, err
	}
	taken, err := a.memory(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := l.rankReports(ctx)
	if err != nil {
		return nil, err
	}
	best, err := a.best()
	if err != nil {
		return nil, err
	}
	if err := a.dump.Draw(a.load.Net, predicted); err != nil {
		return nil, err
	}
	a.tellRetried()
	rep := &Report{
		Steps: a.at.Step, Epochs: a.at.Epoch, Finished: a.goal.completed(&a.at), Parameters: a.session.Parameters(),
		Losses: a.journal.metrics.Losses(), Final: final, Best: best, Test: test,
		Throughput: throughputOf(&l.clock, a.tokensASample()), Ledger: ledgerOf(a.rt.Residency.Ledger(), a.batchBytes()),
		Copies: copiesOf(a.session.Copies().Time(), &l.clock, a.retried), Devices: deviceReports(a.session, a.rt, a.prog.Memory(), taken),
		Stages: len(a.session.Plan.Stages), Replicas: a.session.Plan.Replicas(), Reduction: cmp.Or(a.session.Config.Train.Reduction, configs.ReduceOrder),
		Microbatches: a.session.Sizes.Microbatches, Schedule: order.Name,
		Balance:       a.balanceReport(l.first),
		Bubble:        bubbleOf(&l.clock, predicted),
		Checkpoints:   savesOf(a.saves.Stats(), l.clock.Saves(), a.bound, a.session.StateBytes()),
		HostMemory:    hostOf(a.rt.Residency.HostMemory()),
		Executables:   a.executableReport(l.first),
		WeightsSHA256: hash, MetricsLost: a.folder.Metrics.End(), DeviceLosses: a.losses, Ranks: rows, SuspendedS: a.rt.Stood().Seconds(),
	}
	for _, x := range a.rt.Residency.Allowed() {
		rep.Allowed = append(rep.Allowed, x.String())
	}
	if a.opt.Resume {
		rep.addLost(a.folder.Report(), l.first)
	}
	if a.at.Step == l.first {
		rep.repeat(a.folder.Report())
	}
	return rep, nil
}

// final are the newest metrics. Weights that were imported, and not trained
// since, are evaluated now.
func (a *attempt) final(ctx context.Context) (Final, error) {
	at := &a.at
	f := Final{at.Last.TrainLoss, at.Last.ValLoss, at.Last.ValAccuracy, at.Last.Metrics}
	if imported := at.Imported > 0 && at.Last.Step == 0; imported { // its losses so far are of other weights, too
		if a.eval == nil || at.Imported < at.Step {
			return f, nil
		}
		score, err := a.evaluate(ctx, func() string {
			return "import other weights, or export an older checkpoint and begin a run from it (--init)"
		})
		if err != nil || !a.leads() {
			return f, err
		}
		f.Metrics, err = a.session.Judge.Values(ctx, score)
		f.ValLoss, f.ValAccuracy = &score.Loss, score.Accuracy
		return f, err
	}
	if !a.leads() {
		return f, nil
	}
	if losses := a.journal.metrics.Losses(); f.TrainLoss == nil && len(losses) > 0 {
		mean := meanOf(losses)
		f.TrainLoss = &mean
	}
	return f, nil
}

// best is the best checkpoint, by the metric of the newest one; nil if none has a value
// of it.
func (a *attempt) best() (*Best, error) {
	list, _, err := a.folder.DB.List()
	if err != nil {
		return nil, err
	}
	id := checkpoint.BestOf(list)
	for _, m := range list {
		if m.ID == id {
			return &Best{Checkpoint: id, Step: m.Step, Metric: list[len(list)-1].Best.Metric, Metrics: m.Metrics}, nil
		}
	}
	return nil, nil
}

// tokensASample is the mean number of a sample's targets; of samples with different
// lengths, of its positions.
func (a *attempt) tokensASample() float64 {
	if a.session.Spec.Lengths {
		return float64(a.part.Positions()) / float64(a.part.Samples())
	}
	return float64(a.session.Spec.Terms())
}

// textTokens is tokensASample of a text; 0 for other data, and for samples with one target.
func (a *attempt) textTokens() float64 {
	if n := a.tokensASample(); n > 1 && a.session.Info.Tokens > 0 {
		return n
	}
	return 0
}

// batchBytes is the size of a full step's batch.
func (a *attempt) batchBytes() (n int64) {
	for _, v := range a.prog.Inputs() {
		n += v.Meta.Bytes() * int64(a.session.Sizes.Microbatches)
	}
	return n
}

// write writes the report into the run folder, and where else it is asked for.
func (a *attempt) write(rep *Report) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	err = a.folder.SetReport(b)
	if a.opt.Report == "" {
		return err
	}
	return errors.Join(err, rundir.WriteOutput(a.opt.Report, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}))
}
