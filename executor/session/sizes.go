package session

import (
	"fmt"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/internal/units"
)

// Sizes are the samples of steps, and the steps of an epoch and of the run.
type Sizes struct {
	Samples      int // in the training part
	Asked        int // train.batch
	Batch        int // samples in a full step: fewer than asked for if there are not as many
	Microbatch   int // samples in a full microbatch
	Microbatches int // in a full step
	Steps        int // in an epoch
	Last         int // samples in the last step
	Total        int // steps in the whole run
	Pace         runstate.Pace
}

// NewSizes are those of a config with so many samples to train on.
func NewSizes(c *configs.Config, samples int) Sizes {
	z := Sizes{Samples: samples, Asked: c.Train.Batch, Batch: c.Train.Batch, Microbatches: c.Train.Microbatches}
	z.Microbatch = z.Batch / z.Microbatches
	if z.Batch > samples { // microbatches without a sample never run, nor rows without one
		z.Microbatch = min(z.Microbatch, samples)
		z.Microbatches = (samples-1)/z.Microbatch + 1
		z.Batch = z.Microbatches * z.Microbatch
	}
	z.Steps = (samples-1)/z.Batch + 1
	z.Last = samples - (z.Steps-1)*z.Batch
	z.Pace = runstate.PaceOf(c.Train, z.Steps, z.Batch)
	z.Total = z.Pace.Total()
	return z
}

// evaluated is the samples of a batch of an evaluation of a part.
func (z Sizes) evaluated(part *datasets.Part) int {
	if part.Buckets() != nil { // batches are filled up
		return z.Microbatch
	}
	return min(z.Microbatch, part.Len())
}

// mostLosses is the most steps from one boundary to the next. Their losses stay on the
// device until then, 4 bytes each.
const mostLosses = 1 << 27

// CheckPace refuses boundaries that are too far apart.
func (z Sizes) CheckPace(c *configs.Config) error {
	n := z.Pace.Longest()
	if n <= mostLosses {
		return nil
	}
	return configs.At(c.Where("train.boundary"), fmt.Errorf("%w: train.boundary: %s lie between two boundaries, and the losses of at most %s can be kept; set train.boundary to fewer steps", errs.ErrOptions, units.Count(n, "step"), units.Thousands(mostLosses)))
}

// OneStep is a note that the batch is larger than the training part, so that an
// epoch is one step; "" where it is not.
func (z Sizes) OneStep() string {
	if z.Asked <= z.Samples {
		return ""
	}
	return fmt.Sprintf("train.batch, %d, is more than the %s there are to train on: an epoch is one step", z.Asked, units.Count(z.Samples, "sample"))
}

// TailMicrobatch is the samples of an epoch's last microbatch.
func (z Sizes) TailMicrobatch() int {
	if r := z.Last % z.Microbatch; r > 0 {
		return r
	}
	return z.Microbatch
}

// LastMicrobatches is the microbatches of an epoch's last step.
func (z Sizes) LastMicrobatches() int { return z.LastOf(z.Microbatches) }

// LastOf is the same where a full step has that many microbatches.
func (z Sizes) LastOf(microbatches int) int {
	size := z.Batch / microbatches
	return (z.Last + size - 1) / size
}

// Of is the samples of step i of an epoch, from 0.
func (z Sizes) Of(i int) int {
	if i == z.Steps-1 {
		return z.Last
	}
	return z.Batch
}
