package berth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Evaluation is a model's loss and accuracy over a part of the data.
type Evaluation struct {
	Samples  int      `json:"samples"`
	Part     string   `json:"part"` // what was gone over: validation, training, or all of other data
	Loss     float64  `json:"loss"`
	Accuracy *float64 `json:"accuracy,omitempty"` // nil for regression
	RMSE     *float64 `json:"rmse,omitempty"`     // see [Run.RMSE]
}

// RMSE is the root of a mean squared error: how far off predictions are, in
// the unit of the numbers that are predicted. It is nil where the loss is
// another, or the numbers were scaled, each to its own unit.
func (r *Run) RMSE(loss *float64) *float64 {
	if loss == nil || r.spec.Loss != "mse" {
		return nil
	}
	v := math.Sqrt(*loss)
	if s := r.Data.Info.TargetScaling; s != nil {
		if len(s.Std) > 1 {
			return nil
		}
		v *= s.Std[0]
	}
	return &v
}

// evaluator runs the evaluation graph over a part. Sums stay on the device
// until the end.
type evaluator struct {
	r    *Run
	rt   *executor.Runtime
	prog *executor.Program
	part *datasets.Part
}

// newEvaluator compiles the evaluation of part with the training plan's cut.
func (r *Run) newEvaluator(ctx context.Context, rt *executor.Runtime, part *datasets.Part) (*evaluator, error) {
	e := &evaluator{r: r, rt: rt, part: part}
	batch := min(r.sizes.microbatch, part.Len())
	full, err := r.evalPlan(ctx, batch)
	if err != nil {
		return nil, err
	}
	o := executor.LoadOptions{Net: "eval", Full: full, LastMicrobatches: 1, Stop: stopOf(ctx)}
	if rest := part.Len() % batch; rest > 0 {
		if o.Tail, err = r.evalRest(full, rest); err != nil {
			return nil, err
		}
	}
	if e.prog, err = rt.Load(o); err != nil {
		return nil, err
	}
	return e, nil
}

func (r *Run) evalPlan(ctx context.Context, batch int) (*partition.Plan, error) {
	g, err := models.Eval(r.spec, batch)
	if err != nil {
		return nil, err
	}
	return r.sameCut(ctx, g)
}

func (r *Run) evalRest(full *partition.Plan, rest int) (*partition.Plan, error) {
	g, err := models.Eval(r.spec, rest)
	if err != nil {
		return nil, err
	}
	return full.Rebind(g)
}

// run evaluates the whole part.
func (e *evaluator) run(ctx context.Context) (Evaluation, error) {
	res := Evaluation{Samples: e.part.Len()}
	zero := make([]byte, 4)
	for _, t := range []*residency.Tensor{e.prog.Var(models.EvalLoss), e.prog.Var(models.EvalCorrect)} {
		if t == nil {
			continue
		}
		if err := e.rt.Residency.Fill(t, zero); err != nil {
			return res, err
		}
	}
	if err := e.steps(ctx); err != nil {
		return res, fmt.Errorf("evaluation: %w", err)
	}
	terms := float64(e.part.Len() * e.r.spec.Terms())
	loss, err := e.sum(ctx, e.prog.Var(models.EvalLoss))
	if err != nil {
		return res, err
	}
	res.Loss = loss / terms
	res.RMSE = e.r.RMSE(&res.Loss)
	if t := e.prog.Var(models.EvalCorrect); t != nil {
		correct, err := e.sum(ctx, t)
		if err != nil {
			return res, err
		}
		share := correct / terms
		res.Accuracy = &share
	}
	return res, nil
}

// steps feeds every sample once.
func (e *evaluator) steps(ctx context.Context) error {
	return e.r.each(ctx, e.rt, e.prog, e.part, func(datasets.Batch) error { return nil })
}

// each runs a program over a part, sample by sample in order, and calls done
// after each step. Reading runs ahead of the steps. It returns when nothing is
// queued any more, however it ends.
func (r *Run) each(ctx context.Context, rt *executor.Runtime, p *executor.Program, part *datasets.Part, done func(datasets.Batch) error) (err error) {
	o := datasets.LoaderOptions{Batch: p.Inputs()[0].Meta.Shape[0], Epochs: 1}
	f, err := newFeeder(rt.Devices[r.Plan.Stages[0].Device], p, part, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for {
		b, err := f.loader.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// A step that was queued is waited for even if ctx ends meanwhile: its
		// batch must stay in memory until then.
		ticket, err := p.Step(context.WithoutCancel(ctx), f.batch(b))
		if err == nil {
			err = p.Wait(context.WithoutCancel(ctx), ticket)
		}
		if err != nil {
			return err
		}
		if err := done(b); err != nil {
			return err
		}
		f.loader.Return(b.Slot)
	}
}

func (e *evaluator) sum(ctx context.Context, t *residency.Tensor) (float64, error) {
	v, err := floats(ctx, e.rt.Residency, residency.Epoch, t)
	if err != nil {
		return 0, err
	}
	return float64(v[0]), nil
}

// floats pulls a float tensor back.
func floats(ctx context.Context, m *residency.Manager, why residency.Reason, t *residency.Tensor) ([]float32, error) {
	if err := m.PullBack(ctx, why, t); err != nil {
		return nil, err
	}
	var out []float32
	err := m.View(t, func(b []byte) error {
		out = append(out, shape.View[float32](b)...)
		return nil
	})
	return out, err
}
