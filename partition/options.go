package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/executor/schedule"
)

// PlanOptions changes how New cuts a graph.
type PlanOptions struct {
	Devices      []device.Spec
	Stages       [][]string         // block names by hand, per stage; nil places automatically
	Count        int                // number of stages; 0 means one per device (two for interleaved), at most one per block
	Microbatches int                // of a step, at least 1
	Reduction    Reduction          // how microbatches are summed; empty means in their order
	Replicas     int                // of each stage, each with as many devices and a part of the microbatches; 0 means 1. More need ReduceTree
	Shard        Shard              // the part of the model that replicas divide among them; empty means none
	Schedule     string             // the order of microbatches, if the graph has a backward pass: a name that schedule.New knows; "" means "1f1b"
	Order        *schedule.Schedule // that order itself, in place of a named one; with more workers than devices, neighbours share one
	Apart        bool               // merge no phases, also where a step has one microbatch
	Recompute    Recompute          // the values that Backward computes again; empty means none
	Evict        paging.Rule        // which tensors leave a device first; empty means paging.NextUse
	Estimate     Estimate           // of the memory of segments; nil means by their values alone
	Seconds      Seconds            // measured times of segments; nil means that none is known
	BlockSeconds BlockSeconds       // measured times of blocks, to cut by; nil means that they follow from flops
	Supports     Supports           // whether a device runs a node; nil means that all run everything
	grains       []grain            // to choose from, coarse to fine; nil means all
	ranging      ranging            // of updates
	settled      bool               // no other ranging is tried
	exact        bool               // plans are compared by what they lack, since none fits
	asked        Recompute          // Recompute as the caller gave it
	dealt        []int              // the device of each stage; nil deals them
	checkFinite  bool               // segments will be compiled with device.CompileOptions.CheckFinite
	Stop         func() error       // asked between passes of New, which ends with its error; nil means never
}

// Estimate is the memory that a run of a graph takes on PlanOptions.Devices[d].
type Estimate func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error)

// Seconds is the time of one run of a graph on PlanOptions.Devices[d]; ok is false
// if it is not known.
type Seconds func(d int, g *graph.Graph) (seconds float64, ok bool)

// BlockSeconds is the time of a block's pass on PlanOptions.Devices[d]: of one
// microbatch, or of the update of a step. ok is false if it is not known.
type BlockSeconds func(d int, block string, pass schedule.Kind) (seconds float64, ok bool)

// Supports is device.Device.Supports of PlanOptions.Devices[d].
type Supports func(d int, n *graph.Node) error

// checked refuses options that no graph can follow, and fills in defaults.
func (o PlanOptions) checked() (PlanOptions, error) {
	switch {
	case len(o.Devices) == 0:
		return o, fmt.Errorf("%w: there is no device; give at least one", ErrStages)
	case o.Count < 0:
		return o, fmt.Errorf("%w: %d stages; give 0 for one per device, or more", ErrStages, o.Count)
	case o.Stages != nil && o.Count != 0 && o.Count != len(o.Stages):
		return o, fmt.Errorf("%w: %d stages are asked for and %d are listed; give one of the two", ErrStages, o.Count, len(o.Stages))
	}
	switch o.Reduction {
	case "":
		o.Reduction = ReduceOrder
	case ReduceOrder, ReduceTree:
	default:
		return o, fmt.Errorf("%w: reduction %q: give order or tree", ErrGraph, o.Reduction)
	}
	switch o.Shard {
	case "", ShardNone, ShardOptimizer:
	default:
		return o, replicasError(fmt.Sprintf("shard %q: give none or optimizer", o.Shard))
	}
	o.Microbatches, o.asked = max(1, o.Microbatches), o.Recompute
	if err := o.checkReplicas(); err != nil {
		return o, err
	}
	if o.grains == nil {
		o.grains = []grain{wholePhases, byBlock, byLayer, byNode}
	}
	if o.Schedule == "" {
		o.Schedule = "1f1b"
	}
	if err := o.CheckSchedule(); err != nil {
		return o, fmt.Errorf("%w: %w", ErrStages, err)
	}
	o.settle()
	return o, nil
}

// checkReplicas refuses replicas that have no device or no microbatch, and sums that
// they cannot share.
func (o *PlanOptions) checkReplicas() error {
	switch r := o.Replicas; {
	case r < 0:
		return replicasError(fmt.Sprintf("%d replicas: use 1, or more", r))
	case r > len(o.Devices):
		return replicasError(fmt.Sprintf("%d replicas and %d devices: use at most one for each device", r, len(o.Devices)))
	case r > o.Microbatches:
		return replicasError(fmt.Sprintf("%d replicas share the microbatches of a step, and it has %d: use at most as many replicas, or more microbatches", r, o.Microbatches))
	case r > 1 && o.Reduction != ReduceTree:
		return replicasError(fmt.Sprintf("%d replicas cannot sum microbatches in their order: sum them by a tree (the weights are others), or use 1", r))
	}
	return nil
}

// perReplica is the number of devices that each replica has. Those left over are not
// used.
func (o *PlanOptions) perReplica() int { return len(o.Devices) / max(1, o.Replicas) }

// ofOne is the options for cutting the model for one replica: the first one's
// devices, and the most microbatches that one has.
func (o PlanOptions) ofOne() PlanOptions {
	r := max(1, o.Replicas)
	o.Devices, o.Microbatches, o.Replicas = o.Devices[:o.perReplica()], (o.Microbatches+r-1)/r, 1
	return o
}

// Fewer tells why a plan has fewer stages than asked for: there are not enough
// blocks, or not enough boundaries between them where a stage can end.
type Fewer struct {
	Asked   int  // stages: PlanOptions.Count, or the number of devices
	Devices bool // one per device was asked for, by no number of stages
	Stages  int  // as many as there are
	Blocks  int  // of the model; more than Stages where some cannot be cut apart
}

// String is for people: "3 stages asked for but only 2 blocks".
func (f *Fewer) String() string {
	noun := "stages asked for"
	if f.Devices {
		noun = "devices"
	}
	switch {
	case f.Blocks == 1:
		return fmt.Sprintf("%d %s but only 1 block", f.Asked, noun)
	case f.Stages == 1:
		return fmt.Sprintf("%d %s but the blocks cannot be cut apart", f.Asked, noun)
	case f.Stages < f.Blocks:
		return fmt.Sprintf("%d %s but the blocks can only be cut into %d stages", f.Asked, noun, f.Stages)
	}
	return fmt.Sprintf("%d %s but only %d blocks", f.Asked, noun, f.Blocks)
}
