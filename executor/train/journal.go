package train

import (
	"fmt"

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
	if err := j.metrics.Write(s); err != nil {
		return err
	}
	j.observer.logged(s)
	return nil
}

// boundary records a boundary.
func (j *journal) boundary(e Boundary) error {
	if err := j.metrics.Write(e); err != nil {
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
