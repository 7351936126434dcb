package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/parts"
	"github.com/berth-ml/berth/partition/pieces"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
)

// PlanOptions changes how New cuts a graph.
type PlanOptions struct {
	Devices          []device.Spec
	Ranks            []int              // per device, the rank of the run that has it; nil: one process has all
	Rank             int                // the rank that plans
	Link             Link               // between ranks; the zero value is [DefaultLink]
	Stages           [][]string         // block names by hand, per stage; nil places automatically
	On               []int              // device of each of Stages; nil deals them out in order
	Why              string             // cause of Stages for readers of the plan; empty means by hand
	Pin              map[string]int     // device of a block, or of an op by the name of its result; the stage that has it is there
	Count            int                // number of stages; 0 means one per device (two for interleaved), at most one per block
	Microbatches     int                // of a step, at least 1
	LastMicrobatches int                // of the smaller last step of an epoch; 0 means that there is none
	Reduction        Reduction          // how microbatches are summed; empty means in their order
	Replicas         int                // of each stage, each with as many devices and a part of the microbatches; 0 means 1. More need ReduceTree
	Shares           []int              // microbatches of each replica in a full step of a named schedule; nil: each has about as many. See [Plan.Share]
	Shard            Shard              // the part of the model that replicas divide among them; empty means none
	Schedule         string             // the order of microbatches, if the graph has a backward pass: a name that schedule.New knows; "" means "1f1b"
	Order            *schedule.Schedule // that order itself, in place of a named one; with more workers than devices, neighbours share one
	Apart            bool               // merge no phases, also where a step has one microbatch
	Recompute        Recompute          // the values that Backward computes again; empty means none
	Estimate         Estimate           // of the memory of segments; nil means by their values alone
	Seconds          Seconds            // measured times of segments; nil means that none is known
	OpByOp           bool               // segments run op by op; Seconds are such times
	CallSeconds      CallSeconds        // measured times of calls op by op; nil means that none is known
	CopySeconds      CopySeconds        // measured times of copies; nil means that they follow from links
	HostSeconds      HostSeconds        // measured times of copies between a device and the host; nil means that they follow from its link
	BlockSeconds     BlockSeconds       // measured times of blocks, to cut by; nil means that they follow from flops
	Slow             []float64          // per device, how many times as long as all these times say its launches take; nil: none takes longer. See [Plan.Slowed]
	Supports         Supports           // whether a device runs a node; nil means that all run everything
	grains           []segment.Grain    // for tests: to choose from, coarse to fine; nil means all
	pinned           pieces.Pieces      // of the plan that this one is derived from; nil: by Pin
	unit             int                // for tests: shards begin at multiples of so many elements; 0 means ops.SumElems
	Stop             func() error       // asked between passes of New, which ends with its error; nil means never
}

// settings are the options of a plan as they were checked, and how far a call may choose.
type settings struct {
	PlanOptions
	asked       Recompute                 // by the caller; New may try others
	scratch     func(n *graph.Node) int64 // the most working memory of a node on any device; nil once a plan is made
	pieces      int                       // parts of what needs much memory; 0: nothing is cut
	cuts        parts.Cuts                // what is computed in these parts
	settled     bool                      // no other ranges of updates are tried
	unforecast  bool                      // the plan needs no forecast: it is known to take less memory than another one
	exact       bool                      // plans are compared by what they lack, since none fits
	checkFinite bool                      // segments will be compiled with device.CompileOptions.CheckFinite
}

// pipeline is the options' pipeline.
func (o *PlanOptions) pipeline() order.Pipeline {
	return order.Pipeline{Name: o.Schedule, Order: o.Order, Microbatches: o.Microbatches, Replicas: o.Replicas, Shares: o.Shares, Devices: len(o.Devices), On: o.On}
}

// speeds are the times of the options' devices.
func (o *PlanOptions) speeds() speed.Speeds {
	return speed.Speeds{Devices: o.Devices, Ranks: o.Ranks, Link: o.Link, OpByOp: o.OpByOp, Run: o.Seconds, Call: o.CallSeconds, Copies: o.CopySeconds, Host: o.HostSeconds, Slow: o.Slow}
}

// indexing is how a plan of these options runs a graph. ranged tells that updates of the
// graph are in ranges on one replica.
func (o *PlanOptions) indexing(ranged bool) nodes.Options {
	return nodes.Options{Microbatches: o.Microbatches, Tree: o.Reduction == ReduceTree, Apart: o.Apart, Splits: o.pipeline().Splits(), Ranged: ranged, JoinsApart: o.Ranks != nil}
}

// ofOne is the options for cutting the model for one replica: the first one's
// devices, and the most microbatches that one has.
func (o PlanOptions) ofOne() PlanOptions {
	r := max(1, o.Replicas)
	o.Supports = o.allReplicas()
	o.Ranks = nil
	o.Devices, o.Microbatches, o.Replicas, o.Shares = o.Devices[:o.pipeline().PerReplica()], (o.Microbatches+r-1)/r, 1, nil
	return o
}

// allReplicas is PlanOptions.Supports of the devices of one replica: a device stands for
// those that have its place in the other replicas.
func (o *PlanOptions) allReplicas() Supports {
	all, devices, replicas, each := o.Supports, o.Devices, max(1, o.Replicas), o.pipeline().PerReplica()
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

// checked refuses options that no graph can follow, and fills in defaults.
func (o PlanOptions) checked() (s settings, err error) {
	switch {
	case len(o.Devices) == 0:
		return s, fmt.Errorf("%w: there is no device; give at least one", ErrStages)
	case o.Ranks != nil && len(o.Ranks) != len(o.Devices):
		return s, fmt.Errorf("%w: there are %d devices, and the ranks of %d; give one for each", ErrStages, len(o.Devices), len(o.Ranks))
	case o.Slow != nil && len(o.Slow) != len(o.Devices):
		return s, fmt.Errorf("%w: there are %d devices, and the slowness of %d; give one for each", ErrStages, len(o.Devices), len(o.Slow))
	case o.Count < 0:
		return s, fmt.Errorf("%w: %d stages; give 0 for one per device, or more", ErrStages, o.Count)
	case o.LastMicrobatches < 0 || o.LastMicrobatches > max(1, o.Microbatches):
		return s, fmt.Errorf("%w: the last step of an epoch has %d microbatches; give 1 to %d, or 0 if it is as large as the others", ErrStages, o.LastMicrobatches, max(1, o.Microbatches))
	case o.Stages != nil && o.Count != 0 && o.Count != len(o.Stages):
		return s, fmt.Errorf("%w: Count asks for %d stages, but %d are listed in Stages; set one of the two", ErrStages, o.Count, len(o.Stages))
	}
	switch o.Reduction {
	case "":
		o.Reduction = ReduceOrder
	case ReduceOrder, ReduceTree:
	default:
		return s, fmt.Errorf("%w: reduction %q: give order or tree", ErrGraph, o.Reduction)
	}
	switch o.Shard {
	case "", ShardNone, ShardOptimizer:
	default:
		return s, replicasError(fmt.Sprintf("shard %q: give none or optimizer", o.Shard))
	}
	o.Microbatches = max(1, o.Microbatches)
	if err := o.checkReplicas(); err != nil {
		return s, err
	}
	if err := o.checkDevices(); err != nil {
		return s, err
	}
	if o.grains == nil {
		o.grains = []segment.Grain{segment.WholePhases, segment.ByBlock, segment.ByLayer, segment.ByNode}
		if o.Replicas > 1 {
			o.grains = o.grains[1:] // so that sums of the last blocks are copied while those before run
		}
	}
	o.Schedule = cmp.Or(o.Schedule, order.Default)
	if err := o.CheckSchedule(); err != nil {
		return s, fmt.Errorf("%w: %w", ErrStages, err)
	}
	if o.Link == (Link{}) {
		o.Link = DefaultLink
	}
	o.settle()
	return settings{PlanOptions: o, asked: o.Recompute}, nil
}

// checkReplicas refuses replicas that have no device or no microbatch, and sums that
// they cannot share.
func (o *PlanOptions) checkReplicas() error {
	switch r := o.Replicas; {
	case r < 0:
		return replicasError(fmt.Sprintf("%d replicas: use 1, or more", r))
	case r > len(o.Devices):
		return replicasError(fmt.Sprintf("%d replicas need a device each, and the run has %s; list more devices, or use fewer replicas (--set partition.replicas=%d)", r, units.Count(len(o.Devices), "device"), len(o.Devices)))
	case r > o.Microbatches:
		return replicasError(fmt.Sprintf("%d replicas share the microbatches of a step, and it has %d: use at most as many replicas, or more microbatches", r, o.Microbatches))
	case r > 1 && o.Reduction != ReduceTree:
		return replicasError(fmt.Sprintf("%d replicas cannot sum microbatches in their order: sum them by a tree (the weights are others), or use 1", r))
	}
	return o.checkKinds()
}

// checkKinds refuses replicas on ranks whose devices compute other bits than those of the first.
func (o *PlanOptions) checkKinds() error {
	if d := o.otherBits(); o.Ranks != nil && d >= 0 {
		return replicasError(fmt.Sprintf("all %d replicas compute the same bits, and %s is of another kind than %s, which has its place in the first: give each the same kinds in the same order, or use stages (--set partition.replicas=1 --set partition.stages=%d)",
			o.Replicas, o.Devices[d].ID, o.Devices[d%o.pipeline().PerReplica()].ID, len(o.Devices)))
	}
	return nil
}

// otherBits is the first device that computes other bits than the one with its place in the first replica; -1 if none
// does.
func (o *PlanOptions) otherBits() int {
	each := o.pipeline().PerReplica()
	for d := each; d < each*o.Replicas; d++ {
		if a, b := o.Devices[d%each], o.Devices[d]; a.Kind != b.Kind || a.Numerics != b.Numerics {
			return d
		}
	}
	return -1
}

// checkDevices refuses devices of stages and blocks that there are not, or that other
// replicas than the first have.
func (o *PlanOptions) checkDevices() error {
	if o.On != nil && len(o.On) != len(o.Stages) {
		return fmt.Errorf("%w: %d stages are listed with %d devices; give one for each", ErrStages, len(o.Stages), len(o.On))
	}
	for _, d := range slices.Concat(o.On, slices.Collect(maps.Values(o.Pin))) {
		if d < 0 || d >= len(o.Devices) {
			return fmt.Errorf("%w: a stage is on device %d, but there are %d devices, numbered from 0", ErrStages, d, len(o.Devices))
		}
	}
	first := o.Devices[:o.pipeline().PerReplica()]
	for s, d := range o.On {
		if d >= len(first) {
			return fmt.Errorf("%w: stage %d is on %s, %s", ErrStages, s, o.Devices[d].ID, o.firstHas(first))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Pin)) {
		if d := o.Pin[name]; d >= len(first) {
			return cut.AsPin(name, fmt.Errorf("%q is pinned to %s, %s", name, o.Devices[d].ID, o.firstHas(first)))
		}
	}
	return nil
}

// firstHas ends the error about a device that the first replica does not have.
func (o *PlanOptions) firstHas(first []device.Spec) string {
	var ids []string
	for _, d := range first {
		ids = append(ids, string(d.ID))
	}
	return fmt.Sprintf("and the first of %d replicas has %s; name one of those, and the others follow it", o.Replicas, strings.Join(ids, ", "))
}

// Reduction is how the parts of a step's microbatches are summed. The two round
// differently.
type Reduction string

// The reductions.
const (
	ReduceOrder Reduction = "order" // one after the other; also the meaning of ""
	ReduceTree  Reduction = "tree"  // by a fixed binary tree over the microbatches
)

// Shard names the part of the model that replicas divide among them.
type Shard string

// The shards.
const (
	ShardNone      Shard = "none"      // none: the first replica updates all; also the meaning of ""
	ShardOptimizer Shard = "optimizer" // each updates some of the parameters, or ranges of them, and alone has the optimizer's state of them
)

// CheckSchedule is New's error about a schedule that no step can have.
func (o *PlanOptions) CheckSchedule() error {
	if o.Order == nil {
		return o.pipeline().Spec(make([]int, 1)).Check()
	}
	s := o.Order
	switch {
	case s.Replicas != max(1, o.Replicas):
		return fmt.Errorf("%w: it is for %d replicas, but partition.replicas is %d; make them equal", schedule.ErrInvalid, s.Replicas, max(1, o.Replicas))
	case s.Has(schedule.Reduce):
		return fmt.Errorf("%w: it contains reductions (R), which the planner places itself; remove every R", schedule.ErrInvalid)
	case !s.Has(schedule.Backward):
		return fmt.Errorf("%w: it has no backward pass; add an action B for each stage and microbatch", schedule.ErrInvalid)
	case s.Microbatches != o.Microbatches:
		return fmt.Errorf("%w: it is for %d microbatches, but train.microbatches is %d; make them equal", schedule.ErrInvalid, s.Microbatches, o.Microbatches)
	case o.Stages != nil && len(o.Stages) != s.Stages, o.Count != 0 && o.Count != s.Stages:
		return fmt.Errorf("%w: it is for %d stages, but partition.stages asks for %d; make them equal", schedule.ErrInvalid, s.Stages, max(o.Count, len(o.Stages)))
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if o.Shard == ShardOptimizer && s.Replicas > 1 && s.UpdatesFirst() {
		return fmt.Errorf("%w: partition.shard is optimizer, so each replica needs updates of its own, and one has none; add a U for each of its stages, such as 0U@1", schedule.ErrInvalid)
	}
	for i, w := range s.Workers {
		each := len(s.Rows) / s.Replicas // workers of a replica
		if len(s.Rows)%s.Replicas != 0 || w != i/s.Stages*each+s.Workers[i%s.Stages] {
			return fmt.Errorf("%w: each replica needs workers of its own, as many as the first has and with the same stages; list the workers of the first replica, then those of the next in the same order", schedule.ErrInvalid)
		}
	}
	return nil
}

// settle makes an order of the caller's fit the devices. The options are checked.
func (o *PlanOptions) settle() {
	if o.Order == nil {
		return
	}
	s := o.Order.On(o.pipeline().PerReplica() * o.Order.Replicas)
	o.Order = &s
	if o.Stages == nil {
		o.Count = s.Stages
	}
}
