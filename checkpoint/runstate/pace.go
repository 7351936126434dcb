package runstate

import "github.com/berth-ml/berth/configs"

// Pace is the length of a run, of its epochs and of the intervals between its
// boundaries. At a boundary, losses and metrics come out.
type Pace struct {
	Epoch    int // steps of an epoch
	Batch    int // samples of a full step
	Boundary int // steps between boundaries; 0: each epoch's end is a boundary. The run's last step is one, too
	Epochs   int // of the run; 0: Steps is its length
	Steps    int // of the run; 0: Epochs is its length
}

// PaceOf is the pace that a config asks for, where an epoch has so many steps.
func PaceOf(t configs.Train, steps, batch int) Pace {
	return Pace{Epoch: steps, Batch: batch, Boundary: t.Boundary, Epochs: t.Epochs, Steps: t.Steps}
}

// Total is the steps of a run from its beginning.
func (l Pace) Total() int {
	if l.Steps > 0 {
		return l.Steps
	}
	return l.Epochs * l.Epoch
}

// Longest is the most steps from one boundary to the next.
func (l Pace) Longest() int {
	if l.Boundary > 0 {
		return min(l.Boundary, l.Total())
	}
	return l.Epoch
}

// EpochsFrom is the epochs that a run of total steps still reads from where it
// stands, the one under way included.
func (l Pace) EpochsFrom(p *Progress, total int) int {
	began := p.Step - p.Index/l.Batch
	return (total - began + l.Epoch - 1) / l.Epoch
}
