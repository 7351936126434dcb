package partition

import (
	"cmp"

	"github.com/berth-ml/berth/executor/schedule"
)

// pipeline says in which order a step runs the stages of each replica, and on which
// devices. A cut asks it about the first replica alone, a step about all of them.
type pipeline struct {
	name         string             // of the schedule
	order        *schedule.Schedule // that order itself, in place of a named one
	microbatches int                // of a step
	replicas     int                // of each stage; 0 means 1
	devices      int                // of all replicas
	on           []int              // device of each stage, by hand; nil deals them out
}

// perReplica is the number of devices that each replica has. Those left over are not used.
func (p pipeline) perReplica() int { return p.devices / max(1, p.replicas) }

// roundsPerDevice is the number of stages on each device that an interleaved
// schedule gets by default: more make the bubble smaller and the copies more.
const roundsPerDevice = 2

// defaultSchedule is the meaning of "" in PlanOptions.Schedule.
const defaultSchedule = "1f1b"

// interleaved is the name of the schedule for which stages are dealt in rounds.
const interleaved = "interleaved"

// deal gives each of n stages a device. Neighbours share one where there are fewer
// devices than stages, unless the schedule wants them apart.
func (p pipeline) deal(n int) []int {
	switch {
	case p.on != nil:
		return p.on
	case p.order != nil && p.order.Stages == n:
		return p.order.Workers[:n]
	}
	devices := make([]int, n)
	for s := range devices {
		if devices[s] = s * min(n, p.devices) / n; p.name == interleaved {
			devices[s] = s % p.devices
		}
	}
	return devices
}

// stagesByDefault is the number of stages for all devices, of so many at most: as
// many as devices, or where the schedule goes round them, a multiple.
func (p pipeline) stagesByDefault(most int) int {
	n := p.devices
	if p.name == interleaved && n > 1 && most >= roundsPerDevice*n {
		return roundsPerDevice * n
	}
	return n
}

// splits reports whether the schedule has W passes.
func (p pipeline) splits() bool {
	if p.order != nil {
		return p.order.Has(schedule.Weights)
	}
	return schedule.Splits(p.name)
}

// spec describes the named schedule of stages on these devices of the first replica.
func (p pipeline) spec(devices []int) schedule.Spec {
	return schedule.Spec{Name: cmp.Or(p.name, defaultSchedule), Stages: len(devices), Microbatches: p.microbatches, Replicas: p.replicas, Workers: p.workers(devices, max(1, p.replicas))}
}

// workers are the devices of the stages of so many replicas, given those of the first.
func (p pipeline) workers(devices []int, replicas int) (all []int) {
	for r := range replicas {
		for _, d := range devices {
			all = append(all, r*p.perReplica()+d)
		}
	}
	return all
}

// inFlight is, by stage, the most microbatches at once whose activations the
// backward pass still needs.
func (p pipeline) inFlight(devices []int) []int {
	count := p.spec(devices).InFlight
	if p.order != nil {
		count = func(last schedule.Kind) (n []int) {
			for stage := range devices {
				n = append(n, p.order.InFlight(stage, last))
			}
			return n
		}
	}
	n := count(schedule.Backward)
	for stage, w := range count(schedule.Weights) {
		n[stage] = max(n[stage], w)
	}
	return n
}

// scheduleOn is the schedule of a step of that many microbatches, of stages on these
// devices of the first replica. Pins and lists of stages may put workers of the
// caller's order on one device, or a worker's stages on several.
func (p pipeline) scheduleOn(devices []int, microbatches int) (schedule.Schedule, error) {
	if p.order == nil {
		spec := p.spec(devices)
		spec.Microbatches = microbatches
		return schedule.New(spec)
	}
	s := p.order.Without(microbatches)
	return s.Deal(p.workers(devices, s.Replicas), p.perReplica()*s.Replicas), nil
}
