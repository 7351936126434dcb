package berth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/internal/errs"
)

// whole is train, and closes the session. Of a lost device, its loss is the only
// error.
func (s *session) whole(ctx context.Context, r *Run) (rep *Report, err error) {
	limited, cancel := s.opt.InTime(ctx)
	defer cancel()
	s.ending = limited.Done()
	defer func() {
		closing := s.close()
		var lost *DeviceError
		if errors.As(err, &lost) {
			closing = executor.Unrelated(closing)
		}
		err = errors.Join(err, closing)
	}()
	rep, err = s.train(ctx, r)
	return rep, s.outcome(err)
}

// outcome says of a failure whether it was the loss of a device, which is then given
// up, or of initial weights.
func (s *session) outcome(err error) error {
	if id, lost := executor.LostDevice(err); lost {
		s.written = s.giveUp(s.rt, id, err)
		err = &DeviceError{Device: id, Step: s.failed, Saved: s.newest(), Err: err}
	}
	return s.lostWeights(err)
}

// lostWeights makes a WeightsError of a failed read of initial weights. Before the
// run has started, such a failure is a mistake of the call.
func (s *session) lostWeights(err error) error {
	var read *initial.ReadError
	if s.saves == nil || !errors.As(err, &read) {
		return err
	}
	return &WeightsError{Saved: s.newest(), Err: read.Err}
}

// train opens the session, runs the loop and makes the report.
func (s *session) train(ctx context.Context, r *Run) (*Report, error) {
	l, err := s.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	stopped, err := l.run(ctx)
	if err != nil {
		return nil, l.fail(ctx, err)
	}
	rep, unwritten := s.ended(r, l)
	if rep == nil || !stopped {
		return rep, unwritten
	}
	if unwritten != nil {
		s.opt.Observer.warn(unwritten.Error())
	}
	err = fmt.Errorf("%w at step %d of %d", ErrStopped, s.at.Step, s.goal.steps)
	if ctx.Err() != nil {
		err = errs.With(err, context.Cause(ctx))
	}
	return rep, err
}

// begin opens the session, and tells the observer how the run begins.
func (s *session) begin(ctx context.Context, r *Run) (*loop, error) {
	if err := s.openInTime(ctx, r); err != nil {
		return nil, err
	}
	s.opt.Observer.started(Start{
		Epochs: s.config.Train.Epochs, StepsPerEpoch: s.sizes.steps, Boundary: s.config.Train.Boundary, Steps: s.goal.steps,
		Step: s.at.Step, Parameters: s.parameters(), Stages: len(s.plan.Stages),
	})
	for _, text := range s.notes() {
		s.opt.Observer.note(text)
	}
	return &loop{session: s}, nil
}

// fail ends a loop whose step has failed: after the loss of a device, it saves the
// newest step that is whole. It returns the failure with what to do.
func (l *loop) fail(ctx context.Context, err error) error {
	l.tellRetried()
	if _, lost := executor.LostDevice(err); lost {
		err = l.explained(err, l.first)
		if saving := executor.Unrelated(l.saves.Await()); saving != nil {
			l.opt.Observer.warn(saving.Error())
		}
		l.rescue(context.WithoutCancel(ctx))
		return err
	}
	saving := l.endSaves()
	return errors.Join(l.explained(err, l.first), saving)
}

// ended makes the report of a loop that ended well, and writes it. Where it cannot be
// written, there is a report beside the error.
func (s *session) ended(r *Run, l *loop) (*Report, error) {
	if err := s.endSaves(); err != nil {
		return nil, err
	}
	rep, err := s.finish(r, l)
	if err != nil {
		return nil, err
	}
	if text := s.worse(rep.Final.Metrics); text != "" && s.goal.reached(&s.at) {
		s.opt.Observer.warn(text)
	}
	if err := s.write(rep); err != nil {
		return rep, fmt.Errorf("the run is saved, but its report is not written: %w", err)
	}
	return rep, nil
}

// openInTime is open, unless ctx or the time ends before it does.
func (s *session) openInTime(ctx context.Context, r *Run) error {
	ctx, cancel := s.opt.InTime(ctx)
	defer cancel()
	return beforeFirstStep(ctx, s.open(ctx, r))
}

// explained explains the failure of a step; first is the number of steps taken
// before this call.
func (s *session) explained(err error, first int) error {
	var task *executor.TaskError
	if !errors.As(err, &task) || task.Net != s.load.Net { // or it was between two steps
		return err
	}
	s.failed = first + int(task.Step)
	s.debug.Failure(task)
	if unwritten := s.dump.Failure(s.failed, task); unwritten != nil {
		err = errors.Join(err, unwritten)
	}
	if _, lost := executor.LostDevice(err); lost {
		return err
	}
	read, batch, known := s.feed.Failed(task.Step)
	if known && errors.Is(err, ErrNonFinite) {
		if bad, found := s.badTraining(read); found {
			return fmt.Errorf("step %d: the loss is %w: %v", s.failed, ErrNonFinite, bad)
		}
	}
	f := failure{step: s.failed, batch: batch, known: known, hint: s.lastGood(), err: err, again: s.another}
	return explain(f, s.rt, s.prog, s.load)
}

// finish pulls the weights back, and makes the report. A call that found nothing
// to do has measured nothing, and repeats the measurements of the one before it.
func (s *session) finish(r *Run, l *loop) (*Report, error) {
	ctx := context.Background()
	boundary.Unseal(s.rt.Residency)
	hash, err := s.prog.WeightsHash(ctx)
	if err != nil {
		return nil, err
	}
	order, err := r.Schedule()
	if err != nil {
		return nil, err
	}
	predicted, err := s.costs.predict(ctx, s.plan)
	if err != nil {
		return nil, err
	}
	final, err := s.final(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.dump.Draw(s.load.Net, predicted); err != nil {
		return nil, err
	}
	s.tellRetried()
	rep := &Report{
		Steps: s.at.Step, Epochs: s.at.Epoch, Parameters: s.parameters(), Losses: s.journal.metrics.Losses(), Final: final,
		Throughput: throughputOf(&l.clock, s.tokensASample()), Ledger: ledgerOf(s.rt.Residency.Ledger(), s.batchBytes()),
		Copies: copiesOf(s.copies.Time(), &l.clock, s.retried), Devices: s.deviceReports(s.rt.Memory),
		Stages: len(s.plan.Stages), Replicas: s.plan.Replicas(), Reduction: cmp.Or(s.config.Train.Reduction, configs.ReduceOrder),
		Microbatches: s.sizes.microbatches, Schedule: order.Name,
		Bubble:        bubbleOf(&l.clock, predicted),
		Checkpoints:   savesOf(s.saves.Stats(), l.clock.Saves(), s.bound, s.stateBytes()),
		HostMemory:    hostOf(s.rt.Residency.HostMemory()),
		Executables:   s.executableReport(l.first),
		WeightsSHA256: hash, MetricsLost: s.folder.Metrics.End(), DeviceLosses: s.losses,
	}
	for _, a := range s.rt.Residency.Allowed() {
		rep.Allowed = append(rep.Allowed, a.String())
	}
	if s.opt.Resume {
		rep.addLost(s.folder.Report(), l.first)
	}
	if s.at.Step == l.first {
		rep.repeat(s.folder.Report())
	}
	return rep, nil
}

// final are the newest metrics. Weights that were imported, and not trained
// since, are evaluated now.
func (s *session) final(ctx context.Context) (Final, error) {
	at := &s.at
	f := Final{at.Last.TrainLoss, at.Last.ValLoss, at.Last.ValAccuracy, at.Last.Metrics}
	if imported := at.Imported > 0 && at.Last.Step == 0; imported { // its losses so far are of other weights, too
		if s.eval == nil || at.Imported < at.Step {
			return f, nil
		}
		score, err := s.evaluate(ctx, func() string {
			return "import other weights, or export an older checkpoint and begin a run from it (--init)"
		})
		if err == nil {
			f.Metrics, err = s.judge.Values(ctx, score)
		}
		f.ValLoss, f.ValAccuracy = &score.Loss, score.Accuracy
		return f, err
	}
	if losses := s.journal.metrics.Losses(); f.TrainLoss == nil && len(losses) > 0 {
		mean := meanOf(losses)
		f.TrainLoss = &mean
	}
	return f, nil
}

// tokensASample is the mean number of a sample's targets; of samples with different
// lengths, of its positions.
func (s *session) tokensASample() float64 {
	if s.spec.Lengths {
		return float64(s.part.Positions()) / float64(s.part.Samples())
	}
	return float64(s.spec.Terms())
}

// batchBytes is the size of a full step's batch.
func (s *session) batchBytes() (n int64) {
	for _, v := range s.prog.Inputs() {
		n += v.Meta.Bytes() * int64(s.sizes.microbatches)
	}
	return n
}

// write writes the report into the run folder, and where else it is asked for.
func (s *session) write(rep *Report) error {
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	err = s.folder.SetReport(b)
	if s.opt.Report == "" {
		return err
	}
	return errors.Join(err, rundir.WriteOutput(s.opt.Report, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}))
}
