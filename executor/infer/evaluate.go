package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Score is a model's loss and accuracy over a part.
type Score struct {
	Loss     float64
	Accuracy *float64 // from 0 to 1; nil for regression
}

// Evaluator computes scores over a part. Sums stay on the device until the end. With
// groups of devices, each batch's numbers are pulled back, and summed on the
// host in the order of the samples: the same additions, and so the same bits.
type Evaluator struct {
	pass  *pass
	apart bool // each batch's numbers are pulled back
	terms int  // that the sums are of: samples, times positions of a sequence
}

// NewEvaluator compiles the evaluation of a part.
func NewEvaluator(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Evaluator, error) {
	apart := m.apart()
	p, err := newPass(ctx, rt, m, part, executor.LoadOptions{Net: "eval", Fetch: apart}, func(z models.Size) (*graph.Graph, error) {
		if apart {
			return models.EvalBatch(m.Spec, z)
		}
		return models.Eval(m.Spec, z)
	})
	if err != nil {
		return nil, err
	}
	return &Evaluator{p, apart, part.Len() * m.Spec.Terms()}, nil
}

// Init gives the variables their contents, where no program of the runtime has
// them.
func (e *Evaluator) Init(ctx context.Context, contents func(v *graph.Value, dst []byte) error) error {
	return e.InitFrom(ctx, executor.Contents{Write: contents})
}

// InitFrom is Init with contents of any kind: see [executor.Program.InitFrom].
func (e *Evaluator) InitFrom(ctx context.Context, c executor.Contents) error {
	return e.pass.initFrom(ctx, c)
}

// Close unloads the evaluation. The weights stay if another program has them.
func (e *Evaluator) Close() error { return e.pass.close() }

// Batches is the number of batches that each group of devices has computed.
func (e *Evaluator) Batches() []int { return e.pass.ran }

// Run evaluates the whole part. With groups, it goes on from done, and moves that along;
// nil is the beginning. Afterwards, nothing of it is on a device. It fails with
// [device.ErrNonFinite] where the loss of a batch is not finite.
func (e *Evaluator) Run(ctx context.Context, done *Progress) (s Score, err error) {
	if e.apart {
		s, err = e.spread(ctx, cmp.Or(done, &Progress{}))
	} else {
		s, err = e.inPlace(ctx)
	}
	if errors.Is(err, device.ErrNonFinite) {
		err = fmt.Errorf("evaluation: the loss is %w", device.ErrNonFinite)
	}
	return s, err
}

// spread is Run on groups of devices.
func (e *Evaluator) spread(ctx context.Context, done *Progress) (s Score, err error) {
	for _, l := range e.pass.lanes {
		defer l.Program.Borrow()()
	}
	names := []string{}
	for _, v := range e.pass.lanes[0].Program.Graph().Outputs {
		names = append(names, v.Name)
	}
	if done.sums == nil {
		done.sums = make([]float32, len(names))
	}
	err = e.pass.values(ctx, done, ledger.Epoch, names, func(_ datasets.Batch, outs [][]float32) error {
		for i := range done.sums {
			done.sums[i] += outs[i][0]
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("evaluation: %w", err)
	}
	for i, name := range names {
		mean := float64(done.sums[i]) / float64(e.terms)
		if name == models.EvalLoss {
			s.Loss = mean
		} else {
			s.Accuracy = &mean
		}
	}
	return s, nil
}

// inPlace is Run on one group of devices.
func (e *Evaluator) inPlace(ctx context.Context) (s Score, err error) {
	prog := e.pass.lanes[0].Program
	loss, correct := prog.Var(models.EvalLoss), prog.Var(models.EvalCorrect)
	sums := []*residency.Tensor{loss}
	if correct != nil {
		sums = append(sums, correct)
	}
	zero := make([]byte, 4)
	for _, t := range sums {
		if err := e.pass.rt.Residency.Fill(t, zero); err != nil {
			return s, err
		}
	}
	if err := e.pass.each(ctx, func(datasets.Batch) error { return nil }); err != nil {
		return s, fmt.Errorf("evaluation: %w", err)
	}
	if s.Loss, err = e.mean(ctx, loss); err != nil {
		return s, err
	}
	if correct != nil {
		share, err := e.mean(ctx, correct)
		if err != nil {
			return s, err
		}
		s.Accuracy = &share
	}
	return s, e.drop(sums)
}

// drop drops the contents of tensors.
func (e *Evaluator) drop(ts []*residency.Tensor) error {
	for _, t := range ts {
		if err := e.pass.rt.Residency.Drop(t); err != nil {
			return err
		}
	}
	return nil
}

// mean is a sum on the device over the number of its terms.
func (e *Evaluator) mean(ctx context.Context, sum *residency.Tensor) (float64, error) {
	v, err := e.pass.rt.Floats(ctx, ledger.Epoch, sum)
	if err != nil {
		return 0, err
	}
	return float64(v[0]) / float64(e.terms), nil
}
