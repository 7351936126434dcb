package cut

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/speed"
)

// BlockSeconds is the time of a block's pass on PlanOptions.Devices[d]: of one
// microbatch, or of the update of a step. ok is false if it is not known.
type BlockSeconds func(d int, block string, pass schedule.Kind) (seconds float64, ok bool)

// Options says for which devices a graph is cut, and what was asked for by hand.
type Options struct {
	Devices  []device.Spec  // of the first replica
	Pipeline order.Pipeline // of that replica alone
	Stages   [][]string     // block names by hand, per stage; nil places automatically
	Why      string         // cause of stages for readers of the plan; empty means by hand
	Pin      map[string]int
	Count    int // number of stages; 0 means by the devices
	Supports place.Supports
	Speeds   speed.Speeds
	Blocks   BlockSeconds // measured times of blocks; nil means that they follow from flops
	// predict is the time of a step of so many microbatches by the whole plan of a cut,
	// without a limit on memory. Nil means that a simulation of the schedule decides.
	Predict func(c Cut, microbatches int) float64
}

// Cut has the stage of each block, and the device of each stage.
type Cut struct {
	Blocks  []string // all, by first appearance
	StageOf []int    // by block
	Device  []int    // by stage
	Cause   []string // by stage
	Refused []string // the blocks that devices do not run, a line for each
	Fewer   *Fewer   // why there are fewer stages than asked for, or nil
}

// Groups is the stage of each block by name.
func (c Cut) Groups() map[string]int {
	m := map[string]int{}
	for i, b := range c.Blocks {
		m[b] = c.StageOf[i]
	}
	return m
}

// mostNamed is the most stages that the cause of another one names.
const mostNamed = 32

// sharing names the other stages on the device of stage s, for its cause.
func sharing(devices []int, s int, specs []device.Spec) string {
	var with []string
	count := 0
	for t, d := range devices {
		if t == s || d != devices[s] {
			continue
		}
		if count++; count <= mostNamed {
			with = append(with, fmt.Sprint(t))
		}
	}
	if count == 0 {
		return ""
	}
	if count > mostNamed {
		with = append(with[:2], fmt.Sprintf("… (%d in all)", count))
	}
	return fmt.Sprintf(", shares %s with stage %s", specs[devices[s]].ID, strings.Join(with, ", "))
}
