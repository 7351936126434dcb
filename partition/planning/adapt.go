package planning

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	asked := p.Config.Partition.Pin
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		id := asked[name]
		d := p.deviceAt(id)
		switch {
		case p.pinGaveWay(id): // what it names is placed anew
		case d >= 0:
			out[name] = d
		default:
			return nil, configs.At(p.Config.Where("partition.pin."+name), fmt.Errorf("partition.pin: %w: %s is pinned to %s, but the run's devices are %s; pin it to one of those, or list more devices",
				partition.ErrStages, name, id, idsOf(p.Devices)))
		}
	}
	return out, nil
}

// pinGaveWay reports whether a pin to a device gave way: the run does not have it, or
// only for another replica than the first. Answers need no device of the run, and have no other replicas; on shared devices,
// a service goes on without those that fail.
func (p *Planner) pinGaveWay(id string) bool {
	const key = "partition.pin"
	d := p.deviceAt(id)
	if p.Answering {
		return d < 0 && (p.Lost || p.Shared || p.Config.Where(key).Line > 0)
	}
	return p.givesWay(key) && (d < 0 || d >= len(p.Devices)/max(1, p.replicas()))
}

// PinsGaveWay says which pins gave way, for each device.
func (p *Planner) PinsGaveWay() (list []string) {
	names := map[string][]string{} // by device
	for name, id := range p.Config.Partition.Pin {
		if p.pinGaveWay(id) {
			names[id] = append(names[id], name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		why, are := "is not there", "are"
		if p.deviceAt(id) >= 0 {
			why = "is of another replica now"
		}
		if slices.Sort(names[id]); len(names[id]) == 1 {
			are = "is"
		}
		list = append(list, fmt.Sprintf("partition.pin: %s %s: %s %s placed anew", id, why, strings.Join(names[id], ", "), are))
	}
	return list
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
	list = append(list, p.PinsGaveWay()...)
	if c.Refit {
		list = append(list, fmt.Sprintf("the devices have too little memory for the plan that the config asks for: %s, %s and schedule %s are used",
			units.Count(len(c.Plan.Stages), "stage"), units.Count(c.Plan.Replicas(), "replica"), c.Plan.Schedule()))
	}
	return list
}
