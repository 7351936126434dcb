package partition

import (
	"slices"
)

// deviceOf is the index of the device of a stage's replica.
func (p *Plan) deviceOf(stage, replica int) int {
	return p.program().DeviceOf(stage, replica)
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
	for s := range p.cut.Device {
		list = append(list, p.DevicesOf(s)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Replicas is the number of replicas of each stage.
func (p *Plan) Replicas() int { return max(1, p.options.Replicas) }
