package planning

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// Notes say how a choice is other than its user may expect: fewer stages than asked for, keys
// that gave way, devices that it does not use.
func (p *Planner) Notes(c Choice) (list []string) {
	if f := c.Plan.Fewer; f != nil {
		list = append(list, f.Note())
	}
	list = append(list, p.gaveWay(c)...)
	for _, text := range []string{p.undivided(), p.idle(c.Plan)} {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// undivided says that there is nothing to divide among replicas; "" if there is.
func (p *Planner) undivided() string {
	asked := p.Config.Partition
	if asked.Shard != configs.ShardOptimizer || asked.Plan == configs.PlanAuto || asked.Replicas > 1 {
		return ""
	}
	return "partition.shard: optimizer divides nothing: there is 1 replica; set partition.replicas (with train.reduction: tree)"
}

// idle names the devices that a plan does not use; "" if there are none, or if
// the note on fewer stages says so.
func (p *Planner) idle(plan *partition.Plan) string {
	n, r := len(p.Devices), plan.Replicas()
	var unused []device.Device
	for i, d := range p.Devices {
		if !slices.Contains(plan.Devices(), i) {
			unused = append(unused, d)
		}
	}
	f := plan.Fewer
	switch {
	case len(unused) == 0, f != nil && f.Devices && r == 1:
		return ""
	case n%r != 0 && len(unused) == n%r:
		return fmt.Sprintf("%s for %s: %s idle", units.Count(n, "device"), units.Count(r, "replica"), idsOf(unused))
	}
	by := "the plan"
	if p.Config.Partition.Plan == configs.PlanAuto {
		by = "partition: auto"
	}
	return fmt.Sprintf("%s uses %d of %s: %s idle", by, n-len(unused), units.Count(n, "device"), idsOf(unused))
}
