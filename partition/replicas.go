package partition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/executor/schedule"
)

// ErrReplicas is the error of options with replicas that do not fit the devices or the
// step.
var ErrReplicas = errors.New("bad replicas")

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

// replicasError is an ErrReplicas.
type replicasError string

func (e replicasError) Error() string { return string(e) }
func (e replicasError) Unwrap() error { return ErrReplicas }

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

// deviceOf is the index of the device of a stage's replica.
func (p *Plan) deviceOf(stage, replica int) int {
	return replica*p.options.perReplica() + p.cut.device[stage]
}

// DevicesOf lists the devices of a stage, by replica: their indices in
// PlanOptions.Devices.
func (p *Plan) DevicesOf(stage int) (list []int) {
	for r := range p.Replicas() {
		list = append(list, p.deviceOf(stage, r))
	}
	return list
}

// Devices lists the devices that have a stage: their indices in
// PlanOptions.Devices.
func (p *Plan) Devices() (list []int) {
	for s := range p.cut.device {
		list = append(list, p.DevicesOf(s)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Replicas is the number of replicas of each stage.
func (p *Plan) Replicas() int { return max(1, p.options.Replicas) }

// replicasOf is the replica of each microbatch.
func replicasOf(order []schedule.Action, microbatches int) []int {
	list := make([]int, microbatches)
	for _, a := range order {
		if a.Kind == schedule.Forward {
			list[a.Microbatch] = a.Replica
		}
	}
	return list
}
