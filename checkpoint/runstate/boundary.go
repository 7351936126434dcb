package runstate

import (
	"math"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/metrics"
)

// Step is one training step.
type Step struct {
	Step    int     // from 1
	Epoch   int     // from 0
	InEpoch int     // from 1
	Samples int     // 0 for Observer.Logged and Watched
	Loss    float64 // NaN for Observer.Step: it has not left the device
	Over    int     // for Observer.Watched, the steps up to this one that Loss is the mean over; otherwise 0
	// LearningRate is the step's.
	LearningRate float64
	// GradNorm is the norm of all gradients together, before clipping; nil where it is
	// not computed or not finite, and for Observer.Step and Watched.
	GradNorm *float64
}

// Taken is the number of steps taken, with this one.
func (s Step) Taken() int { return s.Step }

// Boundary is the outcome of the steps between two boundaries, by default of an
// epoch. Metrics that do not exist, such as accuracy in regression, are nil.
type Boundary struct {
	Epoch         int // of the last step, from 0
	Step          int // steps taken so far
	TrainLoss     *float64
	TrainAccuracy *float64
	ValLoss       *float64
	ValAccuracy   *float64
	RMSE          *float64       `json:"-"`          // root of ValLoss, in the unit of the numbers that are predicted; nil where there is none
	Metrics       metrics.Values `json:",omitempty"` // of the validation part (train.metrics)
	Confusion     [][]int64      `json:"-"`          // counts by true class, then by predicted class; nil unless it is among the metrics
	LearningRate  float64        // of the last step
	GradNorm      *float64       // mean over the steps; nil where it is not computed, or not finite
	SamplesPerS   float64
	Time          time.Duration // of the steps
	ValTime       time.Duration // of the evaluation
	At            time.Time     // when the evaluation ended
	Samples       int64         // that the run has trained on so far
	Tokens        int64         // the same in tokens; 0 where a sample has one target
	DevicePeak    int64         // the most bytes that one device had in use so far, in this call
}

// Taken is the number of steps taken so far.
func (e Boundary) Taken() int { return e.Step }

// Named are the boundary's values by name. NaN stands for one that is not defined.
func (e Boundary) Named() map[string]float64 {
	m := map[string]float64{}
	for name, v := range e.Metrics {
		m[configs.ValPrefix+name] = v
	}
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
	Bad    int // boundaries since it last improved
}

// take takes the metric at a boundary in. One that is not finite is no improvement.
func (w *Watched) take(es configs.EarlyStopping, v float64) {
	if w.Metric != es.Metric {
		*w = Watched{Metric: es.Metric}
	}
	best, have := 0.0, w.Best != nil
	if have {
		best = *w.Best
	}
	if improves(es.Metric, v, best, es.MinDelta, have) {
		w.Best, w.Bad = &v, 0
		return
	}
	w.Bad++
}

// improves reports whether a value is better than the best by more than delta.
// The first finite value always is; one that is not finite never is.
func improves(metric string, v, best, delta float64, have bool) bool {
	switch {
	case !finite(v):
		return false
	case !have:
		return true
	case configs.LowerIsBetter(metric):
		return v < best-delta
	}
	return v > best+delta
}

// finite reports whether a number is neither NaN nor infinite, as JSON needs it.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
