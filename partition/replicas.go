package partition

import (
	"slices"

	"github.com/berth-ml/berth/executor/schedule"
)

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
