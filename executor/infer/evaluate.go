package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
)

// Score is a model's loss and accuracy over a part, and what metrics are computed from.
type Score struct {
	Loss      float64
	Accuracy  *float64           // from 0 to 1; nil for regression
	Collected *metrics.Collected // of the model's Spec.Statistics and Spec.Scores
}

// Evaluator computes scores over a part. Sums stay on the device until the end. With
// groups of devices, each batch's numbers are pulled back, and summed on the
// host in the order of the samples: the same additions, and so the same bits. So are
// scores of answers, if they are asked for.
type Evaluator struct {
	pass    *pass
	apart   bool // each batch's numbers are pulled back
	opByOp  bool // an error about a value that is not finite names it
	terms   int  // that the sums are of: samples, times positions of a sequence
	spec    models.Spec
	task    metrics.Task
	numbers []number
}

// NewEvaluator compiles the evaluation of a part.
func NewEvaluator(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Evaluator, error) {
	p, err := newPass(ctx, rt, m, part, m.evaluation(), m.evaluationGraph)
	if err != nil {
		return nil, err
	}
	e := &Evaluator{pass: p, apart: m.apart(), opByOp: m.OpByOp, terms: Terms(m.Spec, part), spec: m.Spec}
	if len(m.Spec.Statistics) > 0 || m.Spec.Scores {
		e.task, err = models.Task(m.Spec, e.terms, func() error { return context.Cause(ctx) })
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	e.numbers = e.numbersOf(p.lanes[0].Program.Graph())
	return e, nil
}

// EvaluatorPrograms are the programs that NewEvaluator loads for a part.
func EvaluatorPrograms(ctx context.Context, m Model, part *datasets.Part) (list []executor.LoadOptions, err error) {
	lanes, err := m.lanes(ctx, part, m.evaluation(), m.evaluationGraph)
	for _, x := range lanes {
		list = append(list, x.program)
	}
	return list, err
}

// evaluation is how the programs of an evaluation are loaded.
func (m *Model) evaluation() executor.LoadOptions {
	return executor.LoadOptions{Net: "eval", Fetch: m.apart() || m.Spec.Scores}
}

// evaluationGraph is the graph of an evaluation.
func (m *Model) evaluationGraph(z models.Size) (*graph.Graph, error) {
	if m.apart() {
		return models.EvalBatch(m.Spec, z)
	}
	return models.Eval(m.Spec, z)
}

// Terms is the number of the loss terms of a part that are no padding.
func Terms(s models.Spec, part *datasets.Part) int {
	if s.PerPosition() {
		return int(part.Targets()) * (s.Terms() / s.Target.Shape[0])
	}
	return part.Samples() * s.Terms()
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
// [device.ErrNonFinite] where the loss of a batch is not finite; op by op, with a
// [device.NonFiniteError] of the first op whose result is not.
func (e *Evaluator) Run(ctx context.Context, done *Progress) (s Score, err error) {
	done = cmp.Or(done, &Progress{})
	if !e.apart {
		done = &Progress{} // sums on a lost device are lost
	}
	if e.spec.Scores { // also on the runtime that follows the one that lost a device
		held := metrics.ScoreBytes(e.task)
		if err := e.pass.rt.Residency.HoldHost(held); err != nil {
			return s, fmt.Errorf("evaluation: no memory to keep the scores of all samples, which metrics such as auc need: %w", err)
		}
		defer e.pass.rt.Residency.ReleaseHost(held)
		if done.scores == nil {
			done.scores = metrics.NewScores(e.task)
		}
	}
	err = e.collect(ctx, done)
	switch r := e.pass.ranks; {
	case err == nil && r != nil && r.Rank > 0:
		return s, nil
	case err == nil:
		return e.score(done), nil
	}
	if errors.Is(err, device.ErrNonFinite) && !e.opByOp {
		return s, fmt.Errorf("evaluation: the loss is %w", device.ErrNonFinite)
	}
	return s, fmt.Errorf("evaluation: %w", err)
}

// collect goes over the samples that are not done.
func (e *Evaluator) collect(ctx context.Context, done *Progress) error {
	if e.apart {
		return e.spread(ctx, done)
	}
	return e.inPlace(ctx, done)
}

// score computes the score from the numbers that were collected.
func (e *Evaluator) score(done *Progress) (s Score) {
	c := &metrics.Collected{Task: e.task, Scores: done.scores}
	for i, n := range e.numbers {
		values := done.collected[i].values()
		switch {
		case n.of != nil:
			c.Set(n.of, values)
		case n.name == models.EvalLoss:
			c.Loss = values[0] / float64(e.terms)
		default:
			share := values[0] / float64(e.terms)
			s.Accuracy, c.Accuracy = &share, share
		}
	}
	s.Loss, s.Collected = c.Loss, c
	return s
}
