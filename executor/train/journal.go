package train

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
)

// journal records a run's losses and metrics: for the report, in the metrics
// file and with the observer.
type journal struct {
	observer *Observer
	metrics  *rundir.Metrics
	told     map[string]bool // damage that was noted
}

// step records the loss of a step that is due to be logged.
func (j *journal) step(s Step) error {
	if err := j.metrics.Write(rundir.StepLine{Step: s.Step, Epoch: s.Epoch, Loss: s.Loss, LearningRate: s.LearningRate, GradNorm: s.GradNorm}); err != nil {
		return err
	}
	j.observer.logged(s)
	return nil
}

// boundary records a boundary.
func (j *journal) boundary(e Boundary, rmse *float64) error {
	err := j.metrics.Write(rundir.BoundaryLine{
		Epoch: e.Epoch, Step: e.Step, TrainLoss: e.TrainLoss, TrainAccuracy: e.TrainAccuracy,
		ValLoss: e.ValLoss, ValAccuracy: e.ValAccuracy, RMSE: rmse, LearningRate: e.LearningRate, GradNorm: e.GradNorm,
		SamplesPerS: e.SamplesPerS, TrainS: seconds(e.Time), ValS: seconds(e.ValTime), SamplesSeen: e.Samples, TokensSeen: e.Tokens,
		Val: e.Metrics, Confusion: e.Confusion, DevicePeak: e.DevicePeak, Time: e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	})
	if err != nil {
		return err
	}
	j.metrics.Flush()
	j.observer.boundary(e)
	return nil
}

// damaged notes damage once.
func (j *journal) damaged(list []checkpoint.Skipped) {
	for _, d := range list {
		text := fmt.Sprintf("skipped %v", d)
		if j.told[text] {
			continue
		}
		if j.told == nil {
			j.told = map[string]bool{}
		}
		j.told[text] = true
		j.observer.note(text)
	}
}

// seconds is a time in seconds, to the microsecond.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }
