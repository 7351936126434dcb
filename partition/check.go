package partition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"

	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/segment"
)

// checked refuses options that no graph can follow, and fills in defaults.
func (o PlanOptions) checked() (PlanOptions, error) {
	switch {
	case len(o.Devices) == 0:
		return o, fmt.Errorf("%w: there is no device; give at least one", cut.ErrStages)
	case o.Count < 0:
		return o, fmt.Errorf("%w: %d stages; give 0 for one per device, or more", cut.ErrStages, o.Count)
	case o.LastMicrobatches < 0 || o.LastMicrobatches > max(1, o.Microbatches):
		return o, fmt.Errorf("%w: %d microbatches in the last step of an epoch; give 1 to %d, as many as a full one has, or 0 for none that is smaller", cut.ErrStages, o.LastMicrobatches, max(1, o.Microbatches))
	case o.Stages != nil && o.Count != 0 && o.Count != len(o.Stages):
		return o, fmt.Errorf("%w: %d stages are asked for and %d are listed; give one of the two", cut.ErrStages, o.Count, len(o.Stages))
	}
	switch o.Reduction {
	case "":
		o.Reduction = ReduceOrder
	case ReduceOrder, ReduceTree:
	default:
		return o, fmt.Errorf("%w: reduction %q: give order or tree", nodes.ErrGraph, o.Reduction)
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
	if err := o.checkDevices(); err != nil {
		return o, err
	}
	if o.grains == nil {
		o.grains = []segment.Grain{segment.WholePhases, segment.ByBlock, segment.ByLayer, segment.ByNode}
		if o.Replicas > 1 {
			o.grains = o.grains[1:] // so that sums of the last blocks are copied while those before run
		}
	}
	o.Schedule = cmp.Or(o.Schedule, order.Default)
	if err := o.CheckSchedule(); err != nil {
		return o, fmt.Errorf("%w: %w", cut.ErrStages, err)
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
		return replicasError(fmt.Sprintf("%d replicas need a device each, and the run has %s; list more devices, or use fewer replicas (--set partition.replicas=%d)", r, units.Count(len(o.Devices), "device"), len(o.Devices)))
	case r > o.Microbatches:
		return replicasError(fmt.Sprintf("%d replicas share the microbatches of a step, and it has %d: use at most as many replicas, or more microbatches", r, o.Microbatches))
	case r > 1 && o.Reduction != ReduceTree:
		return replicasError(fmt.Sprintf("%d replicas cannot sum microbatches in their order: sum them by a tree (the weights are others), or use 1", r))
	}
	return nil
}

// checkDevices refuses devices of stages and blocks that there are not, or that other
// replicas than the first have.
func (o *PlanOptions) checkDevices() error {
	if o.On != nil && len(o.On) != len(o.Stages) {
		return fmt.Errorf("%w: %d stages are listed with %d devices; give one for each", cut.ErrStages, len(o.Stages), len(o.On))
	}
	for _, d := range slices.Concat(o.On, slices.Collect(maps.Values(o.Pin))) {
		if d < 0 || d >= len(o.Devices) {
			return fmt.Errorf("%w: device %d of %d; count from 0", cut.ErrStages, d, len(o.Devices))
		}
	}
	first := o.Devices[:o.perReplica()]
	for s, d := range o.On {
		if d >= len(first) {
			return fmt.Errorf("%w: stage %d is on %s, %s", cut.ErrStages, s, o.Devices[d].ID, o.firstHas(first))
		}
	}
	for _, block := range slices.Sorted(maps.Keys(o.Pin)) {
		if d := o.Pin[block]; d >= len(first) {
			return fmt.Errorf("%w: block %q is pinned to %s, %s", cut.ErrStages, block, o.Devices[d].ID, o.firstHas(first))
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
