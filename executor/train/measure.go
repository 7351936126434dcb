package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/residency/ledger"
)

// history is the values that steps recorded on the devices, pulled back.
type history struct {
	losses boundary.Values
	norms  boundary.Values // of the gradients; nil where they are not computed
	known  int             // norms of steps up to this one are not known
}

// norm is the norm of a step's gradients; nil where there is none, or it is not finite.
func (h history) norm(step int) *float64 {
	if h.norms == nil || step <= h.known {
		return nil
	}
	return finite(h.norms.Of(step))
}

// finite is a number; nil for NaN and infinities, which JSON does not have.
func finite(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}

// pull pulls back the values that metrics are made from.
func (a *attempt) pull(ctx context.Context, why ledger.Reason) (h history, err error) {
	h.known = max(a.at.Lost, a.at.NormsLost)
	if h.losses, err = a.rings().Lead(ctx, a.crew(), why, models.LossRing); err == nil {
		h.norms, err = a.rings().Lead(ctx, a.crew(), why, models.GradNormRing)
	}
	return h, err
}

// log pulls losses back and logs the steps since the last time, those that are
// due: with log_every 0, all of them at a boundary.
func (a *attempt) log(ctx context.Context, why ledger.Reason) (history, error) {
	h, err := a.pull(ctx, why)
	if err != nil {
		return h, err
	}
	if !a.leads() {
		a.at.Logged = a.at.Step
		return h, nil
	}
	every := max(1, a.session.Config.Train.LogEvery)
	for step := max(a.at.Logged, a.at.Began, a.at.Lost) + 1; step <= a.at.Step; step++ {
		if step%every != 0 {
			continue
		}
		epoch, inEpoch := a.at.PlaceOf(step, a.session.Sizes.Pace)
		err := a.journal.step(Step{
			Step: step, Epoch: epoch, InEpoch: inEpoch, Loss: h.losses.Of(step), LearningRate: a.rate.At(step - 1), GradNorm: h.norm(step),
		})
		if err != nil {
			return h, err
		}
	}
	a.at.Logged = a.at.Step
	a.journal.metrics.Flush()
	return h, nil
}

// measure logs the losses since the boundary before, takes their mean as far as the
// rings have them, and evaluates.
func (a *attempt) measure(ctx context.Context, e *Boundary) error {
	h, err := a.log(ctx, ledger.Epoch)
	if err != nil {
		return err
	}
	correct, err := a.rings().Lead(ctx, a.crew(), ledger.Epoch, models.CorrectRing)
	if err != nil {
		return err
	}
	first := max(a.at.Began, a.at.Lost)
	e.TrainLoss, e.TrainAccuracy = h.losses.Mean(first, a.at.Step, a.weight), correct.Mean(first, a.at.Step, a.weight)
	if norm := h.norms.Mean(max(first, h.known), a.at.Step, func(int) int { return 1 }); norm != nil {
		e.GradNorm = finite(*norm)
	}
	a.count(e)
	began, stood := time.Now(), a.rt.Stood()
	if a.eval != nil {
		score, err := a.evaluate(ctx, a.lastGood)
		if err == nil && !a.leads() {
			return nil
		}
		if err == nil {
			e.Metrics, err = a.session.Judge.Values(ctx, score)
		}
		if err != nil {
			return err
		}
		e.ValLoss, e.ValAccuracy, e.RMSE = &score.Loss, score.Accuracy, a.session.RMSE(&score.Loss)
		if a.session.Judge.Has("confusion") {
			e.Confusion = score.Collected.Matrix()
		}
	}
	e.At = time.Now()
	e.ValTime = e.At.Sub(began) - (a.rt.Stood() - stood)
	return nil
}

// warnFar warns of a first boundary whose loss is far above what guessing gives.
func (a *attempt) warnFar(ctx context.Context, e *Boundary) error {
	text, err := a.session.FarAbove(ctx, e, a.run.Data.Train)
	if text != "" {
		a.warned = a.at.Step
		a.opt.Observer.warn(text)
	}
	return err
}

// weight is that of a step among others: the samples of its loss, or the terms where
// samples differ in them.
func (a *attempt) weight(step int) int {
	epoch, inEpoch := a.at.PlaceOf(step, a.session.Sizes.Pace)
	if !a.session.Spec.Lengths {
		return a.session.Sizes.Of(inEpoch - 1)
	}
	at := datasets.Cursor{Epoch: epoch, Index: (inEpoch - 1) * a.session.Sizes.Batch}
	if a.session.Spec.Target.Shape.Rank() == 0 {
		samples, _ := a.part.Counted(at)
		return int(samples)
	}
	return int(a.part.TargetsAt(at))
}

// count counts the samples and the memory so far.
func (a *attempt) count(e *Boundary) {
	e.Samples, e.Tokens = a.part.Seen(a.at.Cursor())
	if terms := a.session.Spec.Terms(); !a.session.Spec.Lengths && terms > 1 && a.session.Info.Tokens > 0 {
		e.Tokens = e.Samples * int64(terms)
	}
	for i := range a.session.Devices {
		e.DevicePeak = max(e.DevicePeak, a.rt.Memory(i).Peak)
	}
}

// evaluate goes over the validation part. Where the loss is not finite, hint
// says what to do.
func (a *attempt) evaluate(ctx context.Context, hint func() string) (infer.Score, error) {
	score, err := a.eval.Run(ctx)
	nan := errors.Is(err, device.ErrNonFinite) || err == nil && (math.IsNaN(score.Loss) || math.IsInf(score.Loss, 0))
	if nan {
		if bad, found := a.badValidation(ctx); found {
			return score, fmt.Errorf("step %d: the validation loss is %w: %v", a.at.Step, device.ErrNonFinite, bad)
		}
	}
	var at *device.NonFiniteError
	if errors.As(err, &at) { // op by op
		return score, fmt.Errorf("step %d: %w; %s", a.at.Step, err, hint())
	}
	if nan {
		err = fmt.Errorf("step %d: the validation loss is %w; %s", a.at.Step, device.ErrNonFinite, hint())
	}
	return score, err
}

// inspect shows the observer where the run stands. No step is queued; b are the metrics
// of a boundary, or nil.
func (a *attempt) inspect(ctx context.Context, b *Boundary) error {
	h, err := a.pull(ctx, ledger.Fetch)
	if err != nil {
		return err
	}
	i := Inspection{Step: a.at.Step, LearningRate: a.rate.At(a.at.Step - 1), Loss: h.losses.Of(a.at.Step), GradNorm: h.norm(a.at.Step), Boundary: b, a: a}
	i.Epoch, i.InEpoch = a.at.PlaceOf(a.at.Step, a.session.Sizes.Pace)
	defer func() { i.a = nil }()
	if err := a.opt.Observer.Inspect(ctx, &i); err != nil {
		return &observerError{err}
	}
	return nil
}

// observerError is the error of an observer's function: the run itself is sound.
type observerError struct{ err error }

func (e *observerError) Error() string { return e.err.Error() }

func (e *observerError) Unwrap() error { return e.err }

// endedBy saves where an error is an observer's, and drops ErrEnd.
func endedBy(err error, save func() error) error {
	own, ok := errors.AsType[*observerError](err)
	if !ok {
		return err
	}
	saving := save()
	if errors.Is(own.err, ErrEnd) {
		return saving
	}
	return errors.Join(own.err, saving)
}
