package berth

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency"
)

// seal says that until the next epoch boundary only the batch goes in, and
// only what the config asks for by name comes out.
func (t *trainer) seal() {
	m := t.rt.Residency
	m.Ledger().Boundary()
	m.Seal()
	m.Unseal(residency.Checkpoint)
	if t.Config.Train.LogEvery > 0 {
		m.Unseal(residency.Log)
	}
}

// endEpoch brings out the epoch's losses, evaluates, keeps the best, and
// saves. Everything queued is settled.
func (t *trainer) endEpoch(ctx context.Context, epoch int) error {
	t.rt.Residency.Unseal()
	defer t.seal()
	e := Epoch{Epoch: epoch, Step: t.at.Step}
	e.SamplesPerS, e.Time = t.clock.lap()
	if err := t.trainMetrics(ctx, &e); err != nil {
		return err
	}
	if t.eval != nil {
		res, err := t.evaluate(ctx, t.lastGood)
		if err != nil {
			return err
		}
		e.ValLoss, e.ValAccuracy = &res.Loss, res.Accuracy
	}
	t.at.EndEpoch(runstate.Epoch(e), t.Config)
	err := t.dir.Metrics.Write(rundir.EpochLine{
		Epoch: e.Epoch, Step: e.Step, TrainLoss: e.TrainLoss, TrainAccuracy: e.TrainAccuracy,
		ValLoss: e.ValLoss, ValAccuracy: e.ValAccuracy, RMSE: t.RMSE(e.ValLoss), SamplesPerS: e.SamplesPerS,
	})
	if err != nil {
		return err
	}
	t.dir.Metrics.Flush()
	t.opt.Observer.epoch(e)
	if t.stoppedEarly() {
		t.opt.Observer.note(fmt.Sprintf("early stopping: %s has not improved for %d epochs", t.at.Watched.Metric, t.at.Watched.Bad))
	}
	return t.save(ctx)
}

// evaluate goes over the validation part. Where the loss is not finite, hint
// says what to do.
func (t *trainer) evaluate(ctx context.Context, hint func() string) (infer.Score, error) {
	res, err := t.eval.Run(ctx)
	if err == nil && (math.IsNaN(res.Loss) || math.IsInf(res.Loss, 0)) {
		err = fmt.Errorf("step %d: the validation loss is %v, %w; %s", t.at.Step, res.Loss, ErrNonFinite, hint())
	}
	return res, err
}

// trainMetrics logs the epoch's steps and takes their mean.
func (t *trainer) trainMetrics(ctx context.Context, e *Epoch) error {
	if err := t.log(ctx, residency.Epoch, e.Epoch); err != nil {
		return err
	}
	loss, err := t.meanOfRing(ctx, models.LossRing)
	if err != nil {
		return err
	}
	e.TrainLoss = loss
	e.TrainAccuracy, err = t.meanOfRing(ctx, models.CorrectRing)
	return err
}

// meanOfRing is the mean over an epoch's samples of what its steps recorded, as
// far as the rings have it; nil if the model records no such thing.
func (t *trainer) meanOfRing(ctx context.Context, name string) (*float64, error) {
	x := t.prog.Var(name)
	if x == nil {
		return nil, nil
	}
	v, err := t.rt.Floats(ctx, residency.Epoch, x)
	if err != nil {
		return nil, err
	}
	var sum float64
	samples := 0
	for step := max(t.at.Began, t.at.Lost); step < t.at.Step; step++ {
		n := t.sizes.of(step - t.at.Began)
		sum += float64(v[step%len(v)]) * float64(n)
		samples += n
	}
	sum /= float64(samples)
	return &sum, nil
}

// log pulls the ring of losses back and logs the steps since the last time:
// all of them at an epoch's end when log_every is 0, otherwise those that are
// due.
func (t *trainer) log(ctx context.Context, why residency.Reason, epoch int) error {
	ring, err := t.rt.Floats(ctx, why, t.prog.Var(models.LossRing))
	if err != nil {
		return err
	}
	every := max(1, t.Config.Train.LogEvery)
	first := max(t.at.Logged, t.at.Began, t.at.Lost) + 1
	for step := first; step <= t.at.Step; step++ {
		if step%every != 0 {
			continue
		}
		loss := float64(ring[(step-1)%len(ring)])
		t.losses = append(t.losses, loss)
		if err := t.dir.Metrics.Write(rundir.StepLine{Step: step, Epoch: epoch, Loss: loss}); err != nil {
			return err
		}
		t.opt.Observer.logged(Step{Step: step, Epoch: epoch, InEpoch: step - t.at.Began, Loss: loss})
	}
	t.at.Logged = t.at.Step
	t.dir.Metrics.Flush()
	return nil
}

// stoppedEarly reports whether the watched metric has not improved for as many
// epochs as the config is patient.
func (t *trainer) stoppedEarly() bool { return t.at.StoppedEarly(t.Config.EarlyStopping) }
