package berth

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// A run goes on where devices were lost, and resumes on other devices than it began
// with. Keys of its config that do not fit these devices then give way, unless the
// command that resumes gives them anew. Weights do not depend on any of them.

// givesWay reports whether a key of the config gives way to the devices that there are.
func (s *setup) givesWay(key string) bool {
	return s.lost || s.elsewhere && s.config.Where(key).Line > 0
}

// isElsewhere reports whether the config's plan was chosen for other devices, or for
// these after keys gave way.
func (s *setup) isElsewhere() bool {
	p := s.config.Partition
	c := p.Chosen
	return c != nil && (!slices.Equal(c.Devices, describe(s.devs)) || c.Replicas > 0 && p.Plan != configs.PlanAuto)
}

// replicas is the number of replicas: of those that give way, at most one for each
// device.
func (s *setup) replicas() int {
	r := s.config.Partition.Replicas
	if s.givesWay("partition.replicas") {
		r = min(r, len(s.devs))
	}
	return r
}

// order is the schedule of the config's own; nil if a named one is in its place.
func (s *setup) order() (*schedule.Schedule, error) {
	order, err := s.config.Partition.Order()
	if err == nil && order != nil && s.givesWay("partition.schedule") && order.Replicas != max(1, s.replicas()) {
		order = nil
	}
	return order, err
}

// pins are the config's pins by the devices' indices.
func (s *setup) pins() (map[string]int, error) {
	out := map[string]int{}
	for block, id := range s.config.Partition.Pin {
		d := s.deviceAt(id)
		switch {
		case s.pinGaveWay(id): // the block is placed anew
		case d >= 0:
			out[block] = d
		default:
			return nil, at(s.config.Where("partition.pin"), fmt.Errorf("partition.pin: %w: block %s is pinned to %s, and the run has %s; pin it to one of those, or list more devices",
				partition.ErrStages, block, id, idsOf(s.devs)))
		}
	}
	return out, nil
}

// pinGaveWay reports whether a pin to a device gave way: the run does not have it, or
// only for another replica than the first.
func (s *setup) pinGaveWay(id string) bool {
	d := s.deviceAt(id)
	return s.givesWay("partition.pin") && (d < 0 || d >= len(s.devs)/max(1, s.replicas()))
}

// deviceAt is the index of a device by its ID, -1 if the run does not have it.
func (s *setup) deviceAt(id string) int {
	return slices.IndexFunc(s.devs, func(d device.Device) bool { return string(d.ID()) == id })
}

// gaveWay says which keys of the config gave way.
func (s *setup) gaveWay() (list []string) {
	p := s.config.Partition
	if r := s.replicas(); r < p.Replicas {
		list = append(list, fmt.Sprintf("partition.replicas: %s in place of %d, on %s", units.Count(r, "replica"), p.Replicas, units.Count(len(s.devs), "device")))
	}
	if was, _ := p.Order(); was != nil {
		if now, _ := s.order(); now == nil {
			list = append(list, fmt.Sprintf("partition.schedule: %q is for %s: 1f1b is used", was.Name, units.Count(was.Replicas, "replica")))
		}
	}
	for _, block := range slices.Sorted(maps.Keys(p.Pin)) {
		if id := p.Pin[block]; s.pinGaveWay(id) {
			why := "is not there"
			if s.deviceAt(id) >= 0 {
				why = "is of another replica now"
			}
			list = append(list, fmt.Sprintf("partition.pin: %s %s: block %s is placed anew", id, why, block))
		}
	}
	if s.refit {
		list = append(list, fmt.Sprintf("the devices have too little memory for the plan that the config asks for: %s, %s and schedule %s are used",
			units.Count(len(s.plan.Stages), "stage"), units.Count(s.plan.Replicas(), "replica"), s.plan.Schedule()))
	}
	return list
}

// shardNote says that there is nothing to divide among replicas; "" if there is.
func (s *setup) shardNote() string {
	p := s.config.Partition
	if p.Shard != configs.ShardOptimizer || p.Plan == configs.PlanAuto || p.Replicas > 1 {
		return ""
	}
	return "partition.shard: optimizer divides nothing: there is 1 replica; set partition.replicas (with train.reduction: tree)"
}
