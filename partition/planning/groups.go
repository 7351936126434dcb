package planning

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
)

// Groups are the groups of devices of a plan for evaluation and prediction: each batch goes to a
// group that is free. The zero value is the plan on its own devices alone.
type Groups struct {
	Count int // of groups; 0: one, and an evaluation's sums stay on its devices
	Size  int // devices of each; the groups follow one another
}

// Of lists the devices that stand for device d of the plan.
func (g Groups) Of(d int) []int {
	list := []int{d}
	for k := 1; k < g.Count; k++ {
		list = append(list, d+k*g.Size)
	}
	return list
}

// Devices are, for each group, the device of each stage. The replicas of a plan are groups, too:
// each has the whole model. Nil: there is one group, or a device has no room for what
// another group's weights would take in addition to the plan.
func (g Groups) Devices(p *partition.Plan, specs []device.Spec) (list [][]int) {
	var count int
	var on func(stage, k int) int
	switch r := p.Replicas(); {
	case g.Count > 0:
		count, on = g.Count, func(stage, k int) int { return g.Of(p.Stages[stage].Device)[k] }
	case r > 1 && !p.AnyTight() && alike(specs):
		count, on = r, func(stage, k int) int { return p.DevicesOf(stage)[k] }
	}
	for k := range count {
		var group []int
		for stage := range p.Stages {
			group = append(group, on(stage, k))
		}
		list = append(list, group)
	}
	return list
}

// Answers plans a pass of the model that has no backward one, such as an evaluation: for the
// smallest groups of devices that have room for the whole model, or else on all devices. Blocks and ops that are pinned are on
// their devices: then there are as many groups as the run has replicas. A pin of what this graph lacks changes nothing.
// step makes the graph of a training step, whose names pins are of; it is called if there are any.
func (p *Planner) Answers(ctx context.Context, g *graph.Graph, step func() (*graph.Graph, error)) (*partition.Plan, Groups, error) {
	o, err := p.Options(ctx)
	if err != nil {
		return nil, Groups{}, err
	}
	o.Microbatches, o.LastMicrobatches, o.Replicas, o.Schedule, o.Order = 1, 1, 1, "", nil // nothing goes back
	if o.Pin, err = p.pins(); err != nil {
		return nil, Groups{}, err
	}
	if pins := p.Config.Partition.Pin; len(pins) > 0 {
		if err := checkPins(pins, step); err != nil {
			return nil, Groups{}, err
		}
	}
	least := 0
	if len(o.Pin) > 0 {
		if o.Pin = partition.PinsIn(g, o.Pin); len(o.Pin) > 0 {
			least = p.pinnedGroup(o.Pin)
		}
	}
	if !p.Unlimited && alike(o.Devices) { // percentages are of the plan on all devices
		plan, groups, err := smallestGroups(g, o, least)
		if plan != nil || err != nil {
			return plan, groups, err
		}
	}
	plan, err := partition.New(g, o)
	return plan, Groups{}, err
}

// checkPins refuses pins of what no step has.
func checkPins(pins map[string]string, step func() (*graph.Graph, error)) error {
	g, err := step()
	if err != nil {
		return err
	}
	return partition.CheckPins(g, pins)
}

// pinnedGroup is the number of devices of a group with pins: as many as a replica of the run has, and those of the pins.
func (p *Planner) pinnedGroup(pins map[string]int) int {
	n := len(p.Devices)
	size := n / max(1, min(p.Config.Partition.Replicas, n))
	for _, d := range pins {
		size = max(size, d+1)
	}
	return size
}

// smallestGroups plans for the smallest groups of devices that have room for the whole
// model; with stages in the config, for groups of as many, and with pins of pinned devices. It finds none where that
// leaves one group. The devices are alike, since answers would otherwise depend on who computes
// them.
func smallestGroups(g *graph.Graph, o partition.PlanOptions, pinned int) (*partition.Plan, Groups, error) {
	n := len(o.Devices)
	first, last := 1, n/2
	if asked := cmp.Or(pinned, o.Count, len(o.Stages)); asked > 0 {
		first, last = asked, min(asked, last)
	}
	for size := first; size <= last; size++ {
		plan, err := planGroup(g, o, size)
		if plan != nil || err != nil {
			return plan, Groups{Count: n / size, Size: size}, err
		}
	}
	return nil, Groups{}, nil
}

// planGroup plans for groups of so many devices; nil: one of them has no room.
func planGroup(g *graph.Graph, o partition.PlanOptions, size int) (*partition.Plan, error) {
	devices := o.Devices
	o.Devices, o.Ranks = devices[:size], nil
	if o.Stages == nil && len(o.Pin) == 0 {
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
	if errors.Is(err, partition.ErrMemory) || errors.Is(err, partition.ErrStages) || p != nil && p.Fewer != nil && len(o.Pin) == 0 {
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
