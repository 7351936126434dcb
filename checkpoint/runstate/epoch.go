package runstate

import (
	"math"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
)

// Epoch is an epoch that ended. Metrics that do not exist, such as accuracy in
// regression, are nil.
type Epoch struct {
	Epoch         int // from 0
	Step          int // steps taken so far
	TrainLoss     *float64
	TrainAccuracy *float64
	ValLoss       *float64
	ValAccuracy   *float64
	SamplesPerS   float64
	Time          time.Duration
}

// Metrics are the epoch's values by name.
func (e Epoch) Metrics() map[string]float64 {
	m := map[string]float64{}
	for name, v := range map[string]*float64{
		"train_loss": e.TrainLoss, "train_accuracy": e.TrainAccuracy,
		"val_loss": e.ValLoss, "val_accuracy": e.ValAccuracy,
	} {
		if v != nil {
			m[name] = *v
		}
	}
	return m
}

// Watched is the metric of early stopping so far.
type Watched struct {
	Metric string
	Best   *float64
	Bad    int // epochs since it last improved
}

// EndEpoch takes an epoch's metrics in: the best value so far, and that of
// early stopping.
func (p *Progress) EndEpoch(e Epoch, c *configs.Config) {
	p.Last = e
	metrics, best := e.Metrics(), c.Checkpoint.Best
	if v, ok := metrics[best]; ok && improves(best, v, p.Best.Value, 0, p.Best.Metric == best) {
		p.Best = checkpoint.Best{Metric: best, Value: v, Step: e.Step, Minimize: minimized(best)}
	}
	es := c.EarlyStopping
	v, ok := metrics[es.Metric]
	if es.Patience == 0 || !ok {
		return
	}
	w := &p.Watched
	if w.Metric != es.Metric || w.Best == nil || improves(es.Metric, v, *w.Best, es.MinDelta, true) {
		*w = Watched{Metric: es.Metric, Best: &v}
		return
	}
	w.Bad++
}

// StoppedEarly reports whether the watched metric has not improved for as many
// epochs as the config is patient.
func (p *Progress) StoppedEarly(es configs.EarlyStopping) bool {
	return es.Patience > 0 && p.Watched.Metric == es.Metric && p.Watched.Bad >= es.Patience
}

// minimized reports whether a lower value of a metric is better.
func minimized(metric string) bool { return metric == "val_loss" }

// improves reports whether a value is better than the best by more than delta.
// The first value that is a number always is.
func improves(metric string, v, best, delta float64, have bool) bool {
	switch {
	case math.IsNaN(v):
		return false
	case !have:
		return true
	case minimized(metric):
		return v < best-delta
	}
	return v > best+delta
}
