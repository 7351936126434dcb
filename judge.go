package berth

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/infer"
)

// Metrics are metrics by name, such as f1. NaN stands for one that is not defined, such
// as auc where a class is absent; in JSON it is null. docs/metrics.md describes them.
type Metrics = metrics.Values

// judge computes the metrics of a model's answers about a part of the data.
type judge struct {
	set  metrics.Set
	task metrics.Task
	unit []float64      // of the numbers that the model gives; nil: that of the data
	part *datasets.Part // nil: there is none
	info *datasets.Info

	known  bool // the rest is
	spread []float64
	bytes  int64
}

// wanted is a metric that a key of the config names.
type wanted struct{ key, name string }

// newJudge is the judge of a part. choose names the metrics of a task.
func (s *setup) newJudge(ctx context.Context, part *datasets.Part, choose func(metrics.Task) []wanted) (*judge, error) {
	j := &judge{part: part, info: s.info}
	if part == nil {
		return j, nil
	}
	var err error
	if j.task, err = models.Task(s.spec, part.Len(), stopOf(ctx)); err != nil {
		return nil, err
	}
	j.task.Text = s.config.Data.Source == "text"
	if x := s.info.TargetScaling; x != nil {
		j.unit = x.Std
	}
	var names []string
	for _, w := range choose(j.task) {
		if _, err := metrics.Choose(j.task, []string{w.name}); err != nil {
			return nil, at(s.config.Where(w.key), fmt.Errorf("%w: %s: %w", ErrOptions, w.key, err))
		}
		names = append(names, w.name)
	}
	j.set, err = metrics.Choose(j.task, names)
	return j, err
}

// atBoundaries are the metrics that a config wants at boundaries.
func atBoundaries(c *configs.Config) func(metrics.Task) []wanted {
	return func(t metrics.Task) (list []wanted) {
		list = listed(c, t)
		if c.Train.Metrics == nil {
			for _, name := range metrics.Usual(t) {
				list = append(list, wanted{"train.metrics", name})
			}
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
		return list
	}
}

// atEnd are the metrics of an evaluation: all, and those that a config names.
func atEnd(c *configs.Config) func(metrics.Task) []wanted {
	return func(t metrics.Task) []wanted {
		list := listed(c, t)
		for _, name := range metrics.All(t) {
			list = append(list, wanted{"train.metrics", name})
		}
		return list
	}
}

// listed are the metrics that train.metrics names.
func listed(c *configs.Config, t metrics.Task) (list []wanted) {
	names := c.Train.Metrics
	if len(names) == 1 && names[0] == configs.MetricsAll {
		names = metrics.All(t)
	}
	for _, name := range names {
		list = append(list, wanted{"train.metrics", name})
	}
	return list
}

// model has its evaluator collect what the metrics need.
func (j *judge) model(m infer.Model) infer.Model {
	m.Spec.Statistics, m.Spec.Scores = j.set.Statistics, j.set.Scores
	return m
}

// hostBytes is the memory on the host that an evaluation takes for metrics.
func (j *judge) hostBytes() int64 {
	if !j.set.Scores {
		return 0
	}
	return metrics.ScoreBytes(j.task)
}

// values computes the metrics.
func (j *judge) values(ctx context.Context, score infer.Score) (metrics.Values, error) {
	if err := j.know(ctx); err != nil {
		return nil, err
	}
	c := score.Collected
	c.Task, c.Unit, c.Spread, c.Bytes = j.task, j.unit, j.spread, j.bytes
	return j.set.Values(c), nil
}

// know reads from the part what metrics need of it.
func (j *judge) know(ctx context.Context) (err error) {
	if j.known {
		return nil
	}
	if j.set.Has("r2") {
		j.spread, err = j.part.TargetSpread(ctx)
	}
	if j.set.Has("bits_per_byte") && j.info.Tokenizer != nil && err == nil {
		_, j.bytes, err = j.part.TargetBytes(ctx, j.info.Tokenizer)
	}
	j.known = err == nil
	return err
}

// worse warns of a model that is worse than none; "" if it is not, or there is no such
// metric.
func worse(values metrics.Values) string {
	if r2 := values.Get("r2"); r2 != nil && *r2 < 0 {
		return fmt.Sprintf("the model is worse than always answering with the mean of the targets (R² %.3g; 0 is as good, 1 is perfect): train for longer, or change the learning rate", *r2)
	}
	return ""
}
