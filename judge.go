package berth

import (
	"context"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
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

	// floors and peaks are, per device, the memory that an evaluation takes: see
	// [residency.TenantOptions]. Nil: no more than the plan's.
	floors, peaks []int64

	known  bool // the rest is
	spread []float64
	bytes  int64
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
	return j.set.Values(c)
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
