package forecast

import (
	"github.com/berth-ml/berth/engine/device"
)

// Forecast is the memory that a step takes on a device. A launch takes memory for
// its tensors and its scratch when it is queued, so the forecast follows from the
// order of the launches alone.
type Forecast struct {
	Device  int                     // index in PlanOptions.Devices
	Limit   int64                   // bytes; 0: none
	Peak    int64                   // most bytes at once of the plan that there is without a limit
	PeakBy  [device.NumUsages]int64 // the same by usage
	Floor   int64                   // bytes that the largest launch needs at once: the least limit
	FloorBy [device.NumUsages]int64 // the same by usage
	FloorOf string                  // that launch: "s0.F0"
	Loaded  int64                   // bytes copied in again per step, because the limit is below the peak
	Spilled int64                   // bytes copied out per step for the same reason
	Host    int64                   // bytes of host memory for what is copied out
	Seconds float64                 // time of a step's launches and of the moved bytes, one after the other, by arithmetic and bytes
}

// Moved is the bytes that move per step because the limit is below the peak.
func (f *Forecast) Moved() int64 { return f.Loaded + f.Spilled }

// Tight reports whether the limit is below the peak.
func (f *Forecast) Tight() bool { return f.Limit > 0 && f.Limit < f.Peak }

// Fits reports whether a step can run.
func (f *Forecast) Fits() bool { return f.Limit <= 0 || f.Floor <= f.Limit }

// OfSamples is the part of the floor that grows with the microbatch. Scratch goes with
// the larger part of the rest: it holds activations or weights in another form.
func (f *Forecast) OfSamples() int64 {
	samples, scratch := f.FloorBy[device.Activation]+f.FloorBy[device.Input], f.FloorBy[device.Scratch]
	if samples >= f.Floor-samples-scratch {
		samples += scratch
	}
	return samples
}
