package answer

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/partition"
)

// Judge computes the metrics of a model's answers about a part of the data.
type Judge struct {
	Part *datasets.Part // nil: no samples validate, and nothing is judged

	// Floors and Peaks are, per device, the memory that an evaluation takes: see
	// [residency.TenantOptions]. Nil: no more than the plan's.
	Floors, Peaks []int64

	model Model
	set   metrics.Set
	task  metrics.Task

	known  bool // the rest is
	spread []float64
	bytes  int64
}

// JudgeOptions say what to judge.
type JudgeOptions struct {
	Text       bool // answers are tokens of a text
	First      bool // of two classes, the first is the positive one: see [metrics.Task]
	Microbatch int  // samples of a batch of the evaluation
	// Choose names the metrics of a task.
	Choose func(metrics.Task) ([]Asked, error)
	// Memory gives the floors and peaks of a plan, in bytes of each device.
	Memory func(p *partition.Plan) (floors, peaks []int64)
}

// Asked is a metric, and the key of the config that asks for it.
type Asked struct{ Key, Name string }

// MetricError is a metric that cannot be computed.
type MetricError struct {
	Key string // of the config, which asks for it
	Err error
}

// Error names the key.
func (e *MetricError) Error() string { return fmt.Sprintf("%v: %s: %v", errs.ErrOptions, e.Key, e.Err) }

// Unwrap is the cause, and errs.ErrOptions.
func (e *MetricError) Unwrap() []error { return []error{errs.ErrOptions, e.Err} }

// NewJudge chooses the metrics for a part, which may be nil. It fails with a [MetricError]
// where one is not of the model's task, and with partition.ErrMemory where a device has too
// little memory to count the answers.
func NewJudge(ctx context.Context, m Model, part *datasets.Part, o JudgeOptions) (*Judge, error) {
	j := &Judge{Part: part, model: m}
	if part == nil {
		return j, nil
	}
	stop := func() error { return context.Cause(ctx) }
	var err error
	j.model.Infer.Spec.Scaling = (*metrics.Scaling)(m.Info.TargetScaling)
	if j.task, err = models.Task(j.model.Infer.Spec, infer.Terms(m.Infer.Spec, part), stop); err != nil {
		return nil, err
	}
	j.task.Text, j.task.First = o.Text, o.First
	list, err := o.Choose(j.task)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrOptions, err)
	}
	var names []string
	for _, a := range list {
		if _, err := metrics.Choose(j.task, []string{a.Name}); err != nil {
			return nil, &MetricError{a.Key, err}
		}
		names = append(names, a.Name)
	}
	if j.set, err = metrics.Choose(j.task, names); err == nil {
		err = j.measureMemory(o, stop)
	}
	return j, err
}

// measureMemory finds the memory of an evaluation whose counts, or the sums of each batch, may take more than the
// plan.
func (j *Judge) measureMemory(o JudgeOptions, stop func() error) error {
	counts := slices.ContainsFunc(j.set.Statistics, func(x *metrics.Statistic) bool { return x.Cells != nil })
	m := j.Model(j.model.Infer)
	if !counts && !m.Apart() {
		return nil
	}
	g, err := m.EvaluationGraph(j.Part, models.Size{Microbatch: o.Microbatch, Stop: stop})
	if err != nil {
		return err
	}
	p, err := partition.Derive(m.Plan, g, partition.DeriveOptions{For: partition.Answers, Stop: stop})
	switch {
	case err != nil && !counts:
		return fmt.Errorf("memory for the losses of batches: %w", err)
	case err != nil:
		return fmt.Errorf("memory for the metrics: %w; or remove the metrics that count answers by class, such as f1, from train.metrics", err)
	}
	j.Floors, j.Peaks = o.Memory(m.Plan)
	floors, peaks := o.Memory(p)
	for d := range floors {
		j.Floors[d], j.Peaks[d] = max(j.Floors[d], floors[d]), max(j.Peaks[d], peaks[d])
	}
	return nil
}

// Cover raises the floors and peaks of j to those of an evaluation by another judge, which comes
// before or after one by j.
func (j *Judge) Cover(other *Judge) {
	raise := func(to *[]int64, by []int64) {
		if *to == nil {
			*to = slices.Clone(by)
			return
		}
		for d := range by {
			(*to)[d] = max((*to)[d], by[d])
		}
	}
	raise(&j.Floors, other.Floors)
	raise(&j.Peaks, other.Peaks)
}

// Model has its evaluator collect what the metrics need.
func (j *Judge) Model(m infer.Model) infer.Model {
	m.Spec.Statistics, m.Spec.Scores, m.Spec.Scaling = j.set.Statistics, j.set.Scores, j.task.Scaling
	return m
}

// HostBytes is the memory on the host that an evaluation takes for metrics.
func (j *Judge) HostBytes() int64 {
	if !j.set.Scores {
		return 0
	}
	return metrics.ScoreBytes(j.task)
}

// Values computes the metrics.
func (j *Judge) Values(ctx context.Context, score infer.Score) (metrics.Values, error) {
	if err := j.know(ctx); err != nil {
		return nil, err
	}
	c := score.Collected
	c.Task, c.Spread, c.Bytes = j.task, j.spread, j.bytes
	return j.set.Values(c)
}

// know reads from the part what metrics need of it.
func (j *Judge) know(ctx context.Context) (err error) {
	if j.known {
		return nil
	}
	if j.set.Spread {
		j.spread, err = j.Part.TargetSpread(ctx)
	}
	if j.set.Bytes && j.model.Info.Tokenizer != nil && err == nil {
		_, j.bytes, err = j.Part.TargetBytes(ctx, j.model.Info.Tokenizer)
	}
	j.known = err == nil
	return err
}

// Has reports whether a metric is among those that are computed.
func (j *Judge) Has(name string) bool { return j.set.Has(name) }
