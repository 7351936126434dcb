package planning

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

// Elsewhere reports whether the config's plan was chosen for other devices, or for
// these after keys gave way.
func Elsewhere(c *configs.Config, devices []device.Device) bool {
	chosen := c.Partition.Chosen
	return chosen != nil && (!slices.Equal(chosen.Devices, describe(devices)) || chosen.Replicas > 0 && c.Partition.Plan != configs.PlanAuto)
}

// givesWay reports whether a key of the config gives way to the devices that there are.
func (p *Planner) givesWay(key string) bool {
	return p.Lost || p.Elsewhere && p.Config.Where(key).Line > 0
}

// replicas is the number of replicas: of those that give way, at most one for each
// device.
func (p *Planner) replicas() int {
	r := p.Config.Partition.Replicas
	if p.givesWay("partition.replicas") {
		r = min(r, len(p.Devices))
	}
	return r
}

// order is the schedule of the config's own; nil if a named one is in its place.
func (p *Planner) order() (*schedule.Schedule, error) {
	order, err := p.Config.Partition.Order()
	if err == nil && order != nil && p.givesWay("partition.schedule") && order.Replicas != max(1, p.replicas()) {
		order = nil
	}
	return order, err
}

// pins are the config's pins by the devices' indices.
func (p *Planner) pins() (map[string]int, error) {
	out := map[string]int{}
	for block, id := range p.Config.Partition.Pin {
		d := p.deviceAt(id)
		switch {
		case p.pinGaveWay(id): // the block is placed anew
		case d >= 0:
			out[block] = d
		default:
			return nil, configs.At(p.Config.Where("partition.pin"), fmt.Errorf("partition.pin: %w: block %s is pinned to %s, but the run's devices are %s; pin it to one of those, or list more devices",
				partition.ErrStages, block, id, idsOf(p.Devices)))
		}
	}
	return out, nil
}

// pinGaveWay reports whether a pin to a device gave way: the run does not have it, or
// only for another replica than the first.
func (p *Planner) pinGaveWay(id string) bool {
	d := p.deviceAt(id)
	return p.givesWay("partition.pin") && (d < 0 || d >= len(p.Devices)/max(1, p.replicas()))
}

// deviceAt is the index of a device by its ID, -1 if the run does not have it.
func (p *Planner) deviceAt(id string) int {
	return slices.IndexFunc(p.Devices, func(d device.Device) bool { return string(d.ID()) == id })
}

// gaveWay says which keys of the config gave way to a choice.
func (p *Planner) gaveWay(c Choice) (list []string) {
	asked := p.Config.Partition
	if r := p.replicas(); r < asked.Replicas {
		list = append(list, fmt.Sprintf("partition.replicas: %s in place of %d, on %s", units.Count(r, "replica"), asked.Replicas, units.Count(len(p.Devices), "device")))
	}
	if was, _ := asked.Order(); was != nil {
		if now, _ := p.order(); now == nil {
			list = append(list, fmt.Sprintf("partition.schedule: %q is for %s: 1f1b is used", was.Name, units.Count(was.Replicas, "replica")))
		}
	}
	for _, block := range slices.Sorted(maps.Keys(asked.Pin)) {
		if id := asked.Pin[block]; p.pinGaveWay(id) {
			why := "is not there"
			if p.deviceAt(id) >= 0 {
				why = "is of another replica now"
			}
			list = append(list, fmt.Sprintf("partition.pin: %s %s: block %s is placed anew", id, why, block))
		}
	}
	if c.Refit {
		list = append(list, fmt.Sprintf("the devices have too little memory for the plan that the config asks for: %s, %s and schedule %s are used",
			units.Count(len(c.Plan.Stages), "stage"), units.Count(c.Plan.Replicas(), "replica"), c.Plan.Schedule()))
	}
	return list
}
