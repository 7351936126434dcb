package berth

import (
	"fmt"

	"github.com/berth-ml/berth/configs"
)

// sizes is how an epoch is cut into steps.
type sizes struct {
	samples      int // of the training part
	batch        int // of a full step
	microbatch   int
	microbatches int
	steps        int // in an epoch
	last         int // samples in the last step
	total        int // steps in the whole run
}

func newSizes(c *configs.Config, samples int) sizes {
	z := sizes{samples: samples, batch: c.Train.Batch, microbatches: c.Train.Microbatches}
	z.microbatch = z.batch / z.microbatches
	z.steps = (samples + z.batch - 1) / z.batch
	z.last = samples - (z.steps-1)*z.batch
	z.total = z.steps * c.Train.Epochs
	return z
}

// oneStep says that a batch larger than the training part makes each epoch one
// step; "" where it is not.
func (z sizes) oneStep() string {
	if z.batch <= z.samples {
		return ""
	}
	return fmt.Sprintf("train.batch, %d, is more than the %d samples there are to train on: an epoch is one step", z.batch, z.samples)
}

// tailMicrobatch is the size of the last microbatch of the last step.
func (z sizes) tailMicrobatch() int {
	if r := z.last % z.microbatch; r > 0 {
		return r
	}
	return z.microbatch
}

// lastMicrobatches is how many microbatches an epoch's last step has.
func (z sizes) lastMicrobatches() int { return (z.last + z.microbatch - 1) / z.microbatch }

// of is the samples of step i of an epoch, from 0.
func (z sizes) of(i int) int {
	if i == z.steps-1 {
		return z.last
	}
	return z.batch
}
