package berth

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
)

// wanted is a metric that a key of the config names.
type wanted struct{ key, name string }

// newJudge is the judge of a part. choose names the metrics of a task.
func (s *setup) newJudge(ctx context.Context, part *datasets.Part, choose func(metrics.Task) ([]wanted, error)) (*judge, error) {
	j := &judge{part: part, info: s.info}
	if part == nil {
		return j, nil
	}
	var err error
	if j.task, err = models.Task(s.spec, infer.Terms(s.spec, part), stopOf(ctx)); err != nil {
		return nil, err
	}
	j.task.Text = s.config.Data.Texts()
	if x := s.info.TargetScaling; x != nil {
		j.unit = x.Std
	}
	list, err := choose(j.task)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	var names []string
	for _, w := range list {
		if _, err := metrics.Choose(j.task, []string{w.name}); err != nil {
			return nil, at(s.config.Where(w.key), fmt.Errorf("%w: %s: %w", ErrOptions, w.key, err))
		}
		names = append(names, w.name)
	}
	if j.set, err = metrics.Choose(j.task, names); err == nil {
		err = s.measureMemory(ctx, j)
	}
	return j, err
}

// measureMemory finds the memory of an evaluation whose counts may take more than the
// plan. It fails with partition.ErrMemory where a device has too little.
func (s *setup) measureMemory(ctx context.Context, j *judge) error {
	if !slices.ContainsFunc(j.set.Statistics, func(x *metrics.Statistic) bool { return x.Cells != nil }) {
		return nil
	}
	g, err := models.Eval(j.model(s.model()).Spec, models.Size{Microbatch: s.sizes.evaluated(j.part), Stop: stopOf(ctx)})
	if err != nil {
		return err
	}
	p, err := partition.SameCut(s.plan, g, stopOf(ctx))
	if err != nil {
		return fmt.Errorf("metrics: %w; or leave out those that count answers (train.metrics)", err)
	}
	j.floors, j.peaks = s.memoryOf(s.plan, s.groups)
	floors, peaks := s.memoryOf(p, s.groups)
	for d := range floors {
		j.floors[d], j.peaks[d] = max(j.floors[d], floors[d]), max(j.peaks[d], peaks[d])
	}
	return nil
}

// atBoundaries are the metrics that a config wants at boundaries.
func atBoundaries(c *configs.Config) func(metrics.Task) ([]wanted, error) {
	return func(t metrics.Task) (list []wanted, err error) {
		if list, err = listed(c, t); c.Train.Metrics == nil {
			list = usual(t)
		}
		by := []wanted{{"checkpoint.best", c.Checkpoint.Best}}
		if c.EarlyStopping.Patience > 0 {
			by = append(by, wanted{"early_stopping.metric", c.EarlyStopping.Metric})
		}
		for _, w := range by {
			if w.name != "val_loss" {
				list = append(list, wanted{w.key, configs.MetricOf(w.name)})
			}
		}
		return list, err
	}
}

// atEnd are the metrics of an evaluation: all, and those that a config names.
func atEnd(c *configs.Config) func(metrics.Task) ([]wanted, error) {
	return func(t metrics.Task) ([]wanted, error) {
		list, err := listed(c, t)
		if err != nil {
			return nil, err
		}
		names, err := all(c, t)
		for _, name := range names {
			list = append(list, wanted{"train.metrics", name})
		}
		return list, err
	}
}

// all are the metrics that a task has, but for those of scores that would take a large
// part of a bound on host memory.
func all(c *configs.Config, t metrics.Task) ([]string, error) {
	bound := c.Devices.HostMemory
	names, err := metrics.All(t)
	return slices.DeleteFunc(names, func(name string) bool {
		m, _ := metrics.Find(name)
		return m.Scores && bound > 0 && metrics.ScoreBytes(t) > bound/4
	}), err
}

// usual are the metrics that a task has unless others are named.
func usual(t metrics.Task) (list []wanted) {
	for _, name := range metrics.Usual(t) {
		list = append(list, wanted{"train.metrics", name})
	}
	return list
}

// listed are the metrics that train.metrics names.
func listed(c *configs.Config, t metrics.Task) (list []wanted, err error) {
	names := c.Train.Metrics
	if len(names) == 1 && names[0] == configs.MetricsAll {
		names, err = all(c, t)
	}
	for _, name := range names {
		list = append(list, wanted{"train.metrics", name})
	}
	return list, err
}

// worse warns of a model that is worse than none; "" if it is not, or there is no such
// metric.
func (s *setup) worse(values metrics.Values) string {
	r2 := values.Get("r2")
	if r2 == nil || *r2 >= 0 {
		return ""
	}
	cure := "train for longer, or change the learning rate"
	if d := s.config.Data; d.Source == "csv" && !d.StandardizeTarget {
		cure = "scale the target (data.standardize_target: true)"
	}
	return fmt.Sprintf("the model is worse than always answering with the mean of the targets (R² %.3g; 0 is as good, 1 is perfect): %s", *r2, cure)
}

// unjudged are notes on metrics of a training that cannot come out, since no samples
// validate.
func (s *setup) unjudged() (list []string) {
	c := s.config
	if s.judge == nil || s.judge.part != nil || ofOneBatch(s.info.Fingerprint) {
		return nil
	}
	for key, asked := range map[string]bool{"train.metrics": len(c.Train.Metrics) > 0, "checkpoint.best": c.Checkpoint.Best != "val_loss"} {
		if asked {
			list = append(list, key+": no samples validate, so it has no effect; set data.split below 1")
		}
	}
	slices.Sort(list)
	return list
}
