package berth

import (
	"context"
	"fmt"
	"math"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/models"
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
	t.at.Last = e
	t.watch(e)
	err := t.metrics.write(epochLine{e.Epoch, e.Step, e.TrainLoss, e.TrainAccuracy, e.ValLoss, e.ValAccuracy, t.RMSE(e.ValLoss), e.SamplesPerS})
	if err != nil {
		return err
	}
	t.flushMetrics()
	t.opt.Observer.epoch(e)
	return t.save(ctx)
}

// evaluate goes over the validation part. Where the loss is not finite, hint
// says what to do.
func (t *trainer) evaluate(ctx context.Context, hint func() string) (Evaluation, error) {
	res, err := t.eval.run(ctx)
	if err == nil && (math.IsNaN(res.Loss) || math.IsInf(res.Loss, 0)) {
		err = fmt.Errorf("step %d: the validation loss is %v, %w; %s", t.at.Step, res.Loss, ErrNonFinite, hint())
	}
	return res, err
}

// metrics are the epoch's values by name.
func (e Epoch) metrics() map[string]float64 {
	m := map[string]float64{}
	for name, v := range map[string]*float64{
		"train_loss": e.TrainLoss, "train_accuracy": e.TrainAccuracy,
		"val_loss": e.ValLoss, "val_accuracy": e.ValAccuracy,
	} {
		if v != nil {
			m[name] = *v
		}
	}
	return m
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
	v, err := floats(ctx, t.rt.Residency, residency.Epoch, x)
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
	ring, err := floats(ctx, t.rt.Residency, why, t.prog.Var(models.LossRing))
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
		if err := t.metrics.write(stepLine{Step: step, Epoch: epoch, Loss: loss}); err != nil {
			return err
		}
		t.opt.Observer.logged(Step{Step: step, Epoch: epoch, InEpoch: step - t.at.Began, Loss: loss})
	}
	t.at.Logged = t.at.Step
	t.flushMetrics()
	return nil
}

// watch keeps the best value of the watched metrics and decides on early
// stopping.
func (t *trainer) watch(e Epoch) {
	c, metrics := t.Config, e.metrics()
	best := c.Checkpoint.Best
	if v, ok := metrics[best]; ok && improves(best, v, t.at.Best.Value, 0, t.at.Best.Metric == best) {
		t.at.Best = checkpoint.Best{Metric: best, Value: v, Step: e.Step, Minimize: minimized(best)}
	}
	es := c.EarlyStopping
	v, ok := metrics[es.Metric]
	if es.Patience == 0 || !ok {
		return
	}
	w := &t.at.Watched
	if w.Metric != es.Metric || w.Best == nil || improves(es.Metric, v, *w.Best, es.MinDelta, true) {
		*w = watched{Metric: es.Metric, Best: &v}
		return
	}
	w.Bad++
	if t.stoppedEarly() {
		t.opt.Observer.note(fmt.Sprintf("early stopping: %s has not improved for %d epochs", es.Metric, w.Bad))
	}
}

// stoppedEarly reports whether the watched metric has not improved for as many
// epochs as the config is patient.
func (t *trainer) stoppedEarly() bool {
	es, w := t.Config.EarlyStopping, t.at.Watched
	return es.Patience > 0 && w.Metric == es.Metric && w.Bad >= es.Patience
}

// minimized tells whether less of a metric is better.
func minimized(metric string) bool { return metric == "val_loss" }

// improves tells whether a value is better than the best by more than delta.
// The first value that is a number always is.
func improves(metric string, v, best, delta float64, have bool) bool {
	switch {
	case math.IsNaN(v):
		return false
	case !have:
		return true
	case minimized(metric):
		return v < best-delta
	}
	return v > best+delta
}
