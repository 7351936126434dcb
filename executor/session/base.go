package session

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// Base is the weights beside which the model has an adapter, by index of the plan's devices: models that have equal
// ones on the same shared devices have them there once. sum is their [initial.Values.BaseHash], and of tells which variables
// they are. It is nil where the devices are the session's own, and where a limit on memory has tensors leave them.
func (s *Session) Base(sum string, of func(v *graph.Value) bool) (*residency.BaseOptions, error) {
	if !s.Shared() || s.Plan.AnyTight() {
		return nil, nil
	}
	launches, err := s.Plan.LaunchesOnce()
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	b := &residency.BaseOptions{Name: "base " + sum[:min(len(sum), shownHash)], ID: sum}
	for i := range launches {
		for _, n := range launches[i].Needs {
			v := n.Value
			if v.Kind != graph.Variable || !of(v) {
				continue
			}
			at, known := index[v.Name]
			if !known {
				at = len(b.Tensors)
				index[v.Name] = at
				b.Tensors = append(b.Tensors, residency.BaseTensor{Key: executor.VariableKey(v), Meta: v.Meta})
			}
			if t := &b.Tensors[at]; !slices.Contains(t.Devices, launches[i].Device) {
				t.Devices = append(t.Devices, launches[i].Device)
			}
		}
	}
	if len(b.Tensors) == 0 {
		return nil, nil
	}
	for i := range b.Tensors { // in an order that no cut changes
		slices.Sort(b.Tensors[i].Devices)
	}
	slices.SortFunc(b.Tensors, func(x, y residency.BaseTensor) int {
		return cmp.Or(cmp.Compare(x.Key.Value, y.Key.Value), cmp.Compare(x.Key.Range, y.Key.Range))
	})
	return b, nil
}

// shownHash is the digits of a hash in names.
const shownHash = 12

// beside leaves a base out of floors and peaks, since those who have it reserve it together. Where it has no room
// beside what an evaluation takes, the model has weights of its own.
func (s *Session) beside(o *residency.TenantOptions) {
	if o.Base == nil {
		return
	}
	bytes := make([]int64, len(s.Devices))
	for _, t := range o.Base.Tensors {
		for _, d := range t.Devices {
			bytes[d] += paging.Rounded(t.Meta.Bytes())
		}
	}
	floors, peaks := slices.Clone(o.Floors), slices.Clone(o.Peaks)
	for d, n := range bytes {
		peaks[d] = max(0, peaks[d]-n)
		floors[d] = min(floors[d], peaks[d]) // a launch takes no more beside the base
		if limit := s.Planner.Specs[d].MemoryBytes; limit > 0 && floors[d]+n > limit {
			o.Base = nil
			return
		}
	}
	o.Floors, o.Peaks = floors, peaks
}
