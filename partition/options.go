package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/recompute"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
)

// PlanOptions changes how New cuts a graph.
type PlanOptions struct {
	Devices          []device.Spec
	Stages           [][]string         // block names by hand, per stage; nil places automatically
	On               []int              // device of each of Stages; nil deals them out in order
	Why              string             // cause of Stages for readers of the plan; empty means by hand
	Pin              map[string]int     // device of a block; the stage that has the block is there
	Count            int                // number of stages; 0 means one per device (two for interleaved), at most one per block
	Microbatches     int                // of a step, at least 1
	LastMicrobatches int                // of the smaller last step of an epoch; 0 means that there is none
	Reduction        Reduction          // how microbatches are summed; empty means in their order
	Replicas         int                // of each stage, each with as many devices and a part of the microbatches; 0 means 1. More need ReduceTree
	Shard            Shard              // the part of the model that replicas divide among them; empty means none
	Schedule         string             // the order of microbatches, if the graph has a backward pass: a name that schedule.New knows; "" means "1f1b"
	Order            *schedule.Schedule // that order itself, in place of a named one; with more workers than devices, neighbours share one
	Apart            bool               // merge no phases, also where a step has one microbatch
	Recompute        recompute.Kind     // the values that Backward computes again; empty means none
	Estimate         forecast.Estimate  // of the memory of segments; nil means by their values alone
	Seconds          speed.Seconds      // measured times of segments; nil means that none is known
	OpByOp           bool               // segments run op by op; Seconds are such times
	CallSeconds      speed.CallSeconds  // measured times of calls op by op; nil means that none is known
	CopySeconds      speed.CopySeconds  // measured times of copies; nil means that they follow from links
	HostSeconds      speed.HostSeconds  // measured times of copies between a device and the host; nil means that they follow from its link
	BlockSeconds     cut.BlockSeconds   // measured times of blocks, to cut by; nil means that they follow from flops
	Supports         place.Supports     // whether a device runs a node; nil means that all run everything
	grains           []segment.Grain    // to choose from, coarse to fine; nil means all
	ranging          divide.Ranges      // of updates
	sharding         divide.Shards      // of updates among replicas
	settled          bool               // no other ranging is tried
	exact            bool               // plans are compared by what they lack, since none fits
	asked            recompute.Kind     // Recompute as the caller gave it
	checkFinite      bool               // segments will be compiled with device.CompileOptions.CheckFinite
	Stop             func() error       // asked between passes of New, which ends with its error; nil means never
}

// pipeline is the options' pipeline.
func (o *PlanOptions) pipeline() order.Pipeline {
	return order.Pipeline{Name: o.Schedule, Order: o.Order, Microbatches: o.Microbatches, Replicas: o.Replicas, Devices: len(o.Devices), On: o.On}
}

// speeds are the times of the options' devices.
func (o *PlanOptions) speeds() speed.Speeds {
	return speed.Speeds{Devices: o.Devices, OpByOp: o.OpByOp, Run: o.Seconds, Call: o.CallSeconds, Copies: o.CopySeconds, Host: o.HostSeconds}
}

// index is how a plan of these options runs a graph.
func (o *PlanOptions) index() nodes.Options {
	return nodes.Options{Microbatches: o.Microbatches, Tree: o.Reduction == ReduceTree, Apart: o.Apart, Splits: o.pipeline().Splits(), Ranged: o.ranging.On()}
}

// perReplica is the number of devices that each replica has. Those left over are not
// used.
func (o *PlanOptions) perReplica() int { return len(o.Devices) / max(1, o.Replicas) }

// ofOne is the options for cutting the model for one replica: the first one's
// devices, and the most microbatches that one has.
func (o PlanOptions) ofOne() PlanOptions {
	r := max(1, o.Replicas)
	o.Supports = o.allReplicas()
	o.Devices, o.Microbatches, o.Replicas = o.Devices[:o.perReplica()], (o.Microbatches+r-1)/r, 1
	return o
}

// allReplicas is PlanOptions.Supports of the devices of one replica: a device stands for
// those that have its place in the other replicas.
func (o *PlanOptions) allReplicas() place.Supports {
	all, devices, replicas, each := o.Supports, o.Devices, max(1, o.Replicas), o.perReplica()
	if all == nil || replicas == 1 {
		return all
	}
	return func(d int, n *graph.Node) error {
		for r := range replicas {
			if err := all(r*each+d, n); err != nil {
				return fmt.Errorf("%s: %w", devices[r*each+d].ID, err)
			}
		}
		return nil
	}
}
