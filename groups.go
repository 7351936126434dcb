package berth

import (
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
)

// groups are a plan for evaluation and prediction on several groups of devices: each
// batch goes to a group that is free. The zero value is the plan on its own devices
// alone.
type groups struct {
	count int // of groups; 0: one, and an evaluation's sums stay on its devices
	size  int // devices of each; the groups follow one another
}

// groupDevices are the groups as infer.Model has them. The replicas of a plan are groups:
// each has the whole model. Nil: there is one group, or a device has no room for what
// another group's weights would take beside the plan.
func (s *setup) groupDevices() (list [][]int) {
	var count int
	var on func(stage, k int) int
	switch r := s.plan.Replicas(); {
	case s.groups.count > 0:
		count, on = s.groups.count, func(stage, k int) int { return s.groups.of(s.plan.Stages[stage].Device)[k] }
	case r > 1 && !s.anyTight() && alike(s.specs()):
		count, on = r, func(stage, k int) int { return s.plan.DevicesOf(stage)[k] }
	}
	for k := range count {
		var group []int
		for stage := range s.plan.Stages {
			group = append(group, on(stage, k))
		}
		list = append(list, group)
	}
	return list
}

// roomFor reports whether the devices of a plan have memory for so many of its batches at
// once. A training has its state there: they must not take more than its steps do. On
// shared devices, others count on the rest of the memory.
func (s *setup) roomFor(p *partition.Plan, batches int) bool {
	specs := s.specs()
	for i := range p.Memory {
		f := &p.Memory[i]
		most, kept := specs[f.Device].MemoryBytes, f.PeakBy[device.Weight]
		switch t := s.forecast(f.Device); {
		case s.trains && t != nil:
			most, kept = t.Peak, t.PeakBy[device.Weight]+t.PeakBy[device.OptState]
		case s.shared != nil:
			most = f.Peak
		}
		if takes := kept + int64(batches)*(f.Peak-f.PeakBy[device.Weight]); most > 0 && takes > most {
			return false
		}
	}
	return true
}

// forecast is the plan's of a device; nil if it has no stage there.
func (s *setup) forecast(device int) *partition.Forecast {
	for i := range s.plan.Memory {
		if f := &s.plan.Memory[i]; f.Device == device {
			return f
		}
	}
	return nil
}

// of lists the devices that stand for device d of the plan.
func (g groups) of(d int) []int {
	list := []int{d}
	for k := 1; k < g.count; k++ {
		list = append(list, d+k*g.size)
	}
	return list
}

// planGroups plans for the smallest groups of devices that have room for the whole
// model; with stages in the config, for groups of as many. It finds none where that
// leaves one group, or where the devices are not alike, since answers would then depend
// on who computes them.
func (s *setup) planGroups(g *graph.Graph, o partition.PlanOptions) (found bool, err error) {
	s.groups = groups{}
	if s.unlimited || !alike(o.Devices) { // percentages are of the plan on all devices
		return false, nil
	}
	n := len(o.Devices)
	first, last := 1, n/2
	if asked := max(o.Count, len(o.Stages)); asked > 0 {
		first, last = asked, min(asked, last)
	}
	for size := first; size <= last; size++ {
		p, err := planGroup(g, o, size)
		if err != nil {
			return false, err
		}
		if p != nil {
			s.plan, s.groups = p, groups{count: n / size, size: size}
			return true, nil
		}
	}
	return false, nil
}

// planGroup plans for groups of so many devices; nil: one of them has no room.
func planGroup(g *graph.Graph, o partition.PlanOptions, size int) (*partition.Plan, error) {
	devices := o.Devices
	o.Devices = devices[:size]
	if o.Stages == nil {
		o.Count = size
	}
	room, weights := int64(0), int64(0)
	for _, d := range o.Devices {
		room += d.MemoryBytes
	}
	for _, v := range g.Vars {
		weights += v.Meta.Bytes()
	}
	if weights > room {
		return nil, nil // without the search for a plan
	}
	p, err := partition.New(g, o)
	if errors.Is(err, partition.ErrMemory) || errors.Is(err, partition.ErrStages) || p != nil && p.Fewer != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range p.Memory {
		f := &p.Memory[i]
		for d := f.Device; d/size < len(devices)/size; d += size {
			if f.Peak > devices[d].MemoryBytes {
				return nil, nil
			}
		}
	}
	return p, nil
}

// alike reports whether devices compute the same bits.
func alike(devices []device.Spec) bool {
	return !slices.ContainsFunc(devices, func(d device.Spec) bool {
		return d.Kind != devices[0].Kind || d.Numerics != devices[0].Numerics
	})
}
