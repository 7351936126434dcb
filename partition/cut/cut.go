package cut

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/pieces"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/speed"
)

// BlockSeconds is the time of a block's pass on device d: of one
// microbatch, or of the update of a step. ok is false if it is not known.
type BlockSeconds func(d int, block string, pass schedule.Kind) (seconds float64, ok bool)

// Options says for which devices a graph is cut, and what was asked for by hand.
type Options struct {
	Devices  []device.Spec  // of the first replica
	Pipeline order.Pipeline // of that replica alone
	Stages   [][]string     // block names by hand, per stage; nil places automatically
	Why      string         // cause of stages for readers of the plan; empty means by hand
	Pin      map[string]int // device of a block
	Pieces   pieces.Pieces  // at which blocks are cut; no stage but that of one of these ops begins or ends within a block
	Ops      map[string]int // device of each of these ops that is pinned
	Count    int            // number of stages; 0 means by the devices
	Supports place.Supports
	Speeds   speed.Speeds
	Blocks   BlockSeconds // measured times of blocks; nil means that they follow from flops
	// Predict is the time of a step of so many microbatches by the whole plan of a cut,
	// without a limit on memory. Nil means that a simulation of the schedule decides.
	Predict func(c Cut, microbatches int) float64
}

// Cut is what the pass decides: the stage of each block, and the device of each stage.
type Cut struct {
	Blocks  []string // all, by first appearance; of those that are cut, the pieces
	StageOf []int    // by block
	Device  []int    // by stage
	Cause   []string // by stage
	Refused []string // the blocks that devices do not run, a line for each
	Fewer   *Fewer   // why there are fewer stages than asked for, or nil
	Apart   bool     // a pinned op has left a stage
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

// Fewer tells why a plan has fewer stages than asked for: there are not enough
// blocks, or not enough boundaries between them where a stage can end.
type Fewer struct {
	Asked   int  // stages: PlanOptions.Count, or the number of devices
	Devices bool // one per device was asked for, by no number of stages
	Stages  int  // as many as there are
	Blocks  int  // of the model; more than Stages where some cannot be cut apart
	// Unsupported tells that there would be blocks enough, if devices ran them.
	Unsupported bool
}

// String is a cause in a few words: "3 stages asked for but only 2 blocks".
func (f *Fewer) String() string {
	noun := "stages asked for"
	if f.Devices {
		noun = "devices"
	}
	switch {
	case f.Unsupported:
		return fmt.Sprintf("%d %s but not every one has a block that it runs", f.Asked, noun)
	case f.Blocks == 1:
		return fmt.Sprintf("%d %s but only 1 block", f.Asked, noun)
	case f.Stages == 1:
		return fmt.Sprintf("%d %s but the blocks cannot be cut apart", f.Asked, noun)
	case f.Stages < f.Blocks:
		return fmt.Sprintf("%d %s but the blocks can only be cut into %d stages", f.Asked, noun, f.Stages)
	}
	return fmt.Sprintf("%d %s but only %d blocks", f.Asked, noun, f.Blocks)
}

// Note is a sentence for people, with the number of stages that are used.
func (f *Fewer) Note() string {
	asked, cuts := "asked for "+units.Count(f.Asked, "stage"), "the model has "+units.Count(f.Blocks, "block")
	if f.Devices {
		asked = fmt.Sprintf("there are %s", units.Count(f.Asked, "device"))
	}
	if f.Unsupported {
		cuts = "not every one has a block that it runs"
	} else if f.Stages < f.Blocks {
		cuts = fmt.Sprintf("the model's %d blocks can be cut in %s only", f.Blocks, units.Count(f.Stages-1, "place"))
	}
	used := "stages are used"
	if f.Stages == 1 {
		used = "stage is used"
	}
	return fmt.Sprintf("%s, %s: %d %s", asked, cuts, f.Stages, used)
}

// ErrStages is the cause of errors about stages: wrong names, counts or order.
var ErrStages = errors.New("cannot place the stages as asked")

// PinError is an [ErrStages] about PlanOptions.Pin.
type PinError struct {
	Name string // of the block or op whose pin is wrong; "" for all pins together
	err  error
}

// AsPin is a PinError about the pin of that name, with that cause.
func AsPin(name string, cause error) error {
	return &PinError{name, fmt.Errorf("%w: %w", ErrStages, cause)}
}

// Error is the text of the error that it is.
func (e *PinError) Error() string { return e.err.Error() }

// Unwrap is the error without its kind.
func (e *PinError) Unwrap() error { return e.err }

// WhyNot is the reason of a device's refusal, without the words that it is one.
func WhyNot(err error) string {
	return strings.ReplaceAll(err.Error(), device.ErrUnsupported.Error()+": ", "")
}

// CheckEdges makes sure that forward values only go to the same or a later
// stage, and gradients the other way.
func CheckEdges(idx *nodes.Index, pl *place.Placement) error {
	if wrong := wrongEdge(idx, pl); wrong != "" {
		return fmt.Errorf("%w: %s; put both in one stage", ErrStages, wrong)
	}
	return nil
}

// Check is CheckEdges for a cut, of which pinned ops may be the cause.
func (c Cut) Check(idx *nodes.Index, pl *place.Placement) error {
	if wrong := wrongEdge(idx, pl); wrong != "" && c.Apart {
		return AsPin("", fmt.Errorf("an op that is pinned cannot be apart from the rest of its block: %s; pin the block", wrong))
	}
	return CheckEdges(idx, pl)
}

// wrongEdge tells of a value that goes the other way; "" if there is none.
func wrongEdge(idx *nodes.Index, pl *place.Placement) string {
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		for _, v := range n.In {
			if v.Kind != graph.Computed || n.Phase == graph.Update || v.Node.Phase != n.Phase {
				continue
			}
			from, to := pl.Node[v.Node.ID], pl.Node[n.ID]
			if n.Phase == graph.Forward && from > to || n.Phase == graph.Backward && from < to {
				return fmt.Sprintf("in the %v pass, %s of stage %d computes %s, and %s of stage %d reads it, but the %[1]v pass runs stage %[6]d first",
					n.Phase, describe(v.Node), from, v.Name, describe(n), to)
			}
		}
	}
	return ""
}

// describe names a node by its layer.
func describe(n *graph.Node) string {
	if n.Layer == nil {
		return n.Op.Kind()
	}
	return n.Layer.String()
}
