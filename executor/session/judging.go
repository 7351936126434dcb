package session

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-ml/berth/checkpoint/restore"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/executor/answer"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/partition"
)

// NewJudge is the judge of a part. choose names the metrics of a task.
func (s *Session) NewJudge(ctx context.Context, part *datasets.Part, choose func(metrics.Task) ([]answer.Asked, error)) (*answer.Judge, error) {
	o := answer.JudgeOptions{
		Text: s.Config.Data.Texts(), Choose: choose,
		Memory: func(p *partition.Plan) (floors, peaks []int64) { return s.MemoryOf(p, s.Groups) },
	}
	if class, named := s.Info.ClassNamed(s.Config.Data.Positive); named {
		o.First = class == 0
	}
	if part != nil {
		o.Microbatch = s.Sizes.evaluated(part)
	}
	j, err := answer.NewJudge(ctx, s.Trained(), part, o)
	if e, ok := errors.AsType[*answer.MetricError](err); ok {
		err = configs.At(s.Config.Where(e.Key), err)
	}
	return j, err
}

// Trained is the model, for answering; before planning, without a cut.
func (s *Session) Trained() answer.Model {
	d := s.Config.Data
	m := answer.Model{Infer: infer.Model{Spec: s.Spec}, Info: s.Info, Source: d.Source, Label: d.Label, Imported: s.Info.Fingerprint == restore.Imported}
	if s.Plan != nil {
		m.Infer = s.Model()
	}
	return m
}

// AtBoundaries are the metrics that a config wants at boundaries.
func AtBoundaries(c *configs.Config) func(metrics.Task) ([]answer.Asked, error) {
	return func(t metrics.Task) (list []answer.Asked, err error) {
		if list, err = listed(c, t); c.Train.Metrics == nil {
			list = usual(t)
		}
		by := []answer.Asked{{Key: "checkpoint.best", Name: c.Checkpoint.Best}}
		if c.EarlyStopping.Patience > 0 {
			by = append(by, answer.Asked{Key: "early_stopping.metric", Name: c.EarlyStopping.Metric})
		}
		for _, w := range by {
			if w.Name != "val_loss" {
				list = append(list, answer.Asked{Key: w.Key, Name: configs.MetricOf(w.Name)})
			}
		}
		return list, err
	}
}

// AtEnd are the metrics of an evaluation: all, and those that a config names.
func AtEnd(c *configs.Config) func(metrics.Task) ([]answer.Asked, error) {
	return func(t metrics.Task) ([]answer.Asked, error) {
		list, err := listed(c, t)
		if err != nil {
			return nil, err
		}
		names, err := all(c, t)
		for _, name := range names {
			list = append(list, answer.Asked{Key: "train.metrics", Name: name})
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
func usual(t metrics.Task) (list []answer.Asked) {
	for _, name := range metrics.Usual(t) {
		list = append(list, answer.Asked{Key: "train.metrics", Name: name})
	}
	return list
}

// listed are the metrics that train.metrics names.
func listed(c *configs.Config, t metrics.Task) (list []answer.Asked, err error) {
	names := c.Train.Metrics
	if len(names) == 1 && names[0] == configs.MetricsAll {
		names, err = all(c, t)
	}
	for _, name := range names {
		list = append(list, answer.Asked{Key: "train.metrics", Name: name})
	}
	return list, err
}

// unjudged are notes on metrics of a training that cannot come out, since no samples
// validate.
func (s *Session) unjudged() (list []string) {
	c := s.Config
	if s.Judge == nil || s.Judge.Part != nil || restore.IsOneBatch(s.Info.Fingerprint) {
		return nil
	}
	tested := s.Tester != nil && s.Tester.Part != nil // which has the metrics of train.metrics
	cure := "set data.split below 1"
	if c.Data.Division != nil {
		cure = "give data.split.val a share"
	}
	for key, asked := range map[string]bool{"train.metrics": len(c.Train.Metrics) > 0 && !tested, "checkpoint.best": c.Checkpoint.Best != "val_loss"} {
		if asked {
			list = append(list, key+": no samples validate, so it has no effect; "+cure)
		}
	}
	slices.Sort(list)
	return list
}

// AtEndFewer are the metrics of an evaluation where devices have no memory for all: those that a
// config names, and the usual ones.
func AtEndFewer(c *configs.Config) func(metrics.Task) ([]answer.Asked, error) {
	return func(t metrics.Task) ([]answer.Asked, error) {
		if slices.Equal(c.Train.Metrics, []string{configs.MetricsAll}) {
			return usual(t), nil
		}
		list, err := listed(c, t)
		return append(usual(t), list...), err
	}
}
