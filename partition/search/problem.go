package search

import (
	"math"

	"github.com/berth-ml/berth/internal/stop"
)

// Problem is a chain of blocks to cut, and the devices for it.
type Problem struct {
	Begins  []bool   // [i]: a stage may begin with block i. One more than there are blocks; the first and the last are true
	Devices []Device // in the order of the user's list
	// Shapes are the pipelines to choose from: per stage the worker on which it
	// runs. Workers are numbered from 0 by first use; each becomes a device.
	Shapes [][]int
	// Cross is the bytes per microbatch that cross the cut before each block, forward
	// and backward. One more than there are blocks; the first and the last are 0.
	Cross        []int64
	Microbatches int
	// Footprint is the memory of blocks lo to hi-1 as one stage. It may be slow: it
	// is asked about a range once, and only where AtLeast and AtMost do not decide.
	Footprint func(lo, hi int) Footprint
	// AtLeast and AtMost are bounds on Footprint that are quickly found. Nil if there
	// are none.
	AtLeast, AtMost func(lo, hi int) Footprint
	// InFlight is the microbatches of each stage at once on these devices.
	InFlight func(devices []int) []int
	// Simulate is the seconds of a step. Nil means that the estimate decides.
	Simulate func(w Way) float64
	// Predict is the seconds of a step by its whole plan, which takes longer. It decides
	// between the way that the estimate puts first and those Predicted ways that Simulate
	// finds fastest. Nil means that Simulate decides.
	Predict   func(w Way) float64
	Predicted int
	Stop      *stop.Check

	latest []int // by number of stages: the last block with which that many can begin, if they end with the last block
}

// Device is a device to put stages on.
type Device struct {
	Class       int       // devices of one class are interchangeable
	MemoryBytes int64     // 0: no limit
	BytesPerS   float64   // of its link; 0: copies take no time
	Seconds     []float64 // of the blocks before each, per microbatch
	Barred      []int     // of the blocks before each, those that must not be here; nil if there are none
}

// Footprint is the memory of a stage in bytes.
type Footprint struct {
	Fixed     int64 // whatever is in flight
	PerFlight int64 // more, for each microbatch in flight
}

// Plus is the memory of both.
func (f Footprint) Plus(g Footprint) Footprint {
	return Footprint{f.Fixed + g.Fixed, f.PerFlight + g.PerFlight}
}

// Minus is the memory of f without g.
func (f Footprint) Minus(g Footprint) Footprint {
	return Footprint{f.Fixed - g.Fixed, f.PerFlight - g.PerFlight}
}

// Bytes is the memory with so many microbatches in flight.
func (f Footprint) Bytes(inFlight int) int64 { return f.Fixed + f.PerFlight*int64(inFlight) }

// Way is a cut, with its devices.
type Way struct {
	Begins    []int   // first block of each stage
	Devices   []int   // of each stage, index in Problem.Devices
	Seconds   float64 // of a step: simulated, or else estimated
	Tried     int     // ways that were simulated to find it
	Reordered bool    // the devices are others than the first ones, or in another order than in the list
	Fits      bool    // every device has memory for its stages

	line   int     // its line, the most promising one first
	most   float64 // seconds per microbatch of the busiest device
	cross  int64   // as in label
	uneven float64 // as in label
}

// blocks is the number of blocks.
func (p *Problem) blocks() int { return len(p.Begins) - 1 }

// seconds is the time of blocks lo to hi-1 on a device, per microbatch: infinite
// where one must not be there.
func (p *Problem) seconds(lo, hi, d int) float64 {
	x := &p.Devices[d]
	if x.Barred != nil && x.Barred[hi] > x.Barred[lo] {
		return math.Inf(1)
	}
	return x.Seconds[hi] - x.Seconds[lo]
}

// linkSeconds is the time per microbatch of the copies to a stage of blocks lo to
// hi-1: forward from the stage before, and backward from the one behind. Half of
// what crosses a cut goes each way.
func (p *Problem) linkSeconds(lo, hi int, l *line, stage int) float64 {
	d := &p.Devices[l.devices[stage]]
	if d.BytesPerS <= 0 {
		return 0
	}
	var bytes int64
	if stage > 0 && l.devices[stage-1] != l.devices[stage] {
		bytes += p.Cross[lo] / 2
	}
	if stage+1 < len(l.devices) && l.devices[stage+1] != l.devices[stage] {
		bytes += p.Cross[hi] / 2
	}
	return float64(bytes) / d.BytesPerS
}
