package infer

import (
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

// Evaluator computes scores over a part. Sums and counts stay on the device until the end. With
// groups of devices, each has those of its batches, and the host adds the sums of batches up in the
// order of the samples: the same additions as on one device, and so the same bits. Scores of answers are pulled
// back by batch, if they are asked for.
type Evaluator struct {
	pass    *pass
	apart   bool // each program has variables of its own: see [models.EvalApart]
	slots   int  // of these
	opByOp  bool // an error about a value that is not finite names it
	terms   int  // that the sums are of: samples, times positions of a sequence
	spec    models.Spec
	task    metrics.Task
	numbers []number
}

// NewEvaluator compiles the evaluation of a part.
func NewEvaluator(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part) (*Evaluator, error) {
	p, err := newPass(ctx, rt, m, part, m.evaluation(), m.evaluations(part))
	if err != nil {
		return nil, err
	}
	e := &Evaluator{pass: p, apart: m.Apart(), slots: m.slots(part), opByOp: m.OpByOp, terms: Terms(m.Spec, part), spec: m.Spec}
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
	lanes, err := m.lanes(ctx, part, m.evaluation(), m.evaluations(part))
	for _, x := range lanes {
		list = append(list, x.program)
	}
	return list, err
}

// evaluation is how the programs of an evaluation are loaded.
func (m *Model) evaluation() executor.LoadOptions {
	return executor.LoadOptions{Net: "eval", Fetch: m.Spec.Scores}
}

// evaluations makes the graphs of an evaluation of a part.
func (m *Model) evaluations(part *datasets.Part) builder {
	return builder{own: m.Apart(), build: func(z models.Size, program string) (*graph.Graph, error) {
		if m.Apart() {
			return models.EvalApart(m.Spec, z, models.Apart{Program: program, Slots: m.slots(part)})
		}
		return models.Eval(m.Spec, z)
	}}
}

// EvaluationGraph is the graph of one of the programs that evaluate a part.
func (m *Model) EvaluationGraph(part *datasets.Part, z models.Size) (*graph.Graph, error) {
	return m.evaluations(part).build(z, m.net("eval"))
}

// mostSlots is the most batches of a program whose sums wait on a device, in 16 KiB for each number. Those of more batches
// come out before the end. Tests set it.
var mostSlots = 4096

// slots is the number of batches whose sums a program of an evaluation keeps: it may get all of a part.
func (m *Model) slots(part *datasets.Part) int {
	part = part.InBatches(m.Microbatch)
	return min((part.Len()-1)/min(m.Microbatch, part.Len())+1, mostSlots)
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

// Run evaluates the whole part. Afterwards, nothing of it is on a device. It fails with
// [device.ErrNonFinite] where the loss of a batch is not finite; op by op, with a
// [device.NonFiniteError] of the first op whose result is not.
func (e *Evaluator) Run(ctx context.Context) (s Score, err error) {
	var got gathered
	if e.spec.Scores {
		held := metrics.ScoreBytes(e.task)
		if err := e.pass.rt.Residency.HoldHost(held); err != nil {
			return s, fmt.Errorf("evaluation: no memory to keep the scores of all samples, which metrics such as auc need: %w", err)
		}
		defer e.pass.rt.Residency.ReleaseHost(held)
		got.scores = metrics.NewScores(e.task)
	}
	if e.apart {
		err = e.spread(ctx, &got)
	} else {
		err = e.inPlace(ctx, &got)
	}
	switch {
	case err == nil && e.pass.rank() > 0:
		return s, nil
	case err == nil:
		return e.score(&got), nil
	}
	if errors.Is(err, device.ErrNonFinite) && !e.opByOp {
		return s, fmt.Errorf("evaluation: the loss is %w", device.ErrNonFinite)
	}
	return s, fmt.Errorf("evaluation: %w", err)
}

// score computes the score from the numbers that were gathered.
func (e *Evaluator) score(got *gathered) (s Score) {
	c := &metrics.Collected{Task: e.task, Scores: got.scores}
	for i, n := range e.numbers {
		values := got.numbers[i].values()
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
