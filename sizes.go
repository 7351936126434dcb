package berth

import (
	"fmt"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
)

// sizes are the samples of steps, and the steps of an epoch and of the run.
type sizes struct {
	samples      int // in the training part
	asked        int // train.batch
	batch        int // samples in a full step: fewer than asked for if there are not as many
	microbatch   int // samples in a full microbatch
	microbatches int // in a full step
	steps        int // in an epoch
	last         int // samples in the last step
	total        int // steps in the whole run
	pace         runstate.Pace
}

func newSizes(c *configs.Config, samples int) sizes {
	z := sizes{samples: samples, asked: c.Train.Batch, batch: c.Train.Batch, microbatches: c.Train.Microbatches}
	z.microbatch = z.batch / z.microbatches
	if z.batch > samples { // microbatches without a sample never run, nor rows without one
		z.microbatch = min(z.microbatch, samples)
		z.microbatches = (samples-1)/z.microbatch + 1
		z.batch = z.microbatches * z.microbatch
	}
	z.steps = (samples-1)/z.batch + 1
	z.last = samples - (z.steps-1)*z.batch
	z.pace = runstate.PaceOf(c.Train, z.steps, z.batch)
	z.total = z.pace.Total()
	return z
}

// evaluated is the samples of a batch of an evaluation of a part.
func (z sizes) evaluated(part *datasets.Part) int {
	if part.Buckets() != nil { // batches are filled up
		return z.microbatch
	}
	return min(z.microbatch, part.Len())
}

// mostLosses is the most steps from one boundary to the next. Their losses stay on the
// device until then, 4 bytes each.
const mostLosses = 1 << 27

// checkPace refuses boundaries that are too far apart.
func (z sizes) checkPace(c *configs.Config) error {
	n := z.pace.Longest()
	if n <= mostLosses {
		return nil
	}
	return at(c.Where("train.boundary"), fmt.Errorf("%w: train.boundary: %d steps from one boundary to the next are more than %d, and their losses are kept until then; set it to fewer", ErrOptions, n, mostLosses))
}

// oneStep is a note that the batch is larger than the training part, so that an
// epoch is one step; "" where it is not.
func (z sizes) oneStep() string {
	if z.asked <= z.samples {
		return ""
	}
	return fmt.Sprintf("train.batch, %d, is more than the %d samples there are to train on: an epoch is one step", z.asked, z.samples)
}

// tailMicrobatch is the samples of an epoch's last microbatch.
func (z sizes) tailMicrobatch() int {
	if r := z.last % z.microbatch; r > 0 {
		return r
	}
	return z.microbatch
}

// lastMicrobatches is the microbatches of an epoch's last step.
func (z sizes) lastMicrobatches() int { return z.lastOf(z.microbatches) }

// lastOf is the same where a full step has that many microbatches.
func (z sizes) lastOf(microbatches int) int {
	size := z.batch / microbatches
	return (z.last + size - 1) / size
}

// of is the samples of step i of an epoch, from 0.
func (z sizes) of(i int) int {
	if i == z.steps-1 {
		return z.last
	}
	return z.batch
}
