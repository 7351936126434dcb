package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
)

// PlanOptions says how to cut.
type PlanOptions struct {
	Devices      []device.Spec
	Stages       [][]string                  // block names by hand, per stage; nil places automatically
	Count        int                         // number of stages; 0 means one per device, at most one per block
	Microbatches int                         // of a step, at least 1
	InFlight     func(stages, stage int) int // most microbatches of a stage between their F and B; nil means as in 1F1B
	Apart        bool                        // merge no phases, also where a step has one microbatch
	Recompute    Recompute                   // the values that Backward computes again; empty means none
	Stop         func() error                // asked between passes of New, which ends with its error; nil means never
}

// checked fills in defaults.
func (o PlanOptions) checked() (PlanOptions, error) {
	switch {
	case len(o.Devices) == 0:
		return o, fmt.Errorf("%w: there is no device; give at least one", ErrStages)
	case o.Count < 0:
		return o, fmt.Errorf("%w: %d stages; give 0 for one per device, or more", ErrStages, o.Count)
	case o.Stages != nil && o.Count != 0 && o.Count != len(o.Stages):
		return o, fmt.Errorf("%w: %d stages are asked for and %d are listed; give one of the two", ErrStages, o.Count, len(o.Stages))
	}
	o.Microbatches = max(1, o.Microbatches)
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	if o.InFlight == nil {
		m := o.Microbatches
		o.InFlight = func(stages, stage int) int { return min(m, stages-stage) }
	}
	return o, nil
}
