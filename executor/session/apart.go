package session

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition/planning"
)

// Apart are sessions on one group of devices each that has the whole model; s itself where there is one group. Each is to
// be planned, and makes a runtime of its own. All may be used at the same time: see [Divide]. Their devices are those of s,
// which closes them.
func (s *Session) Apart() (list []*Session) {
	g := s.Groups
	if g.Count < 2 {
		return []*Session{s}
	}
	for k := range g.Count {
		var on []int
		for d := range g.Size {
			on = append(on, k*g.Size+d)
		}
		list = append(list, s.Only(on))
	}
	return list
}

// Divide has sessions of Only that are used at the same time divide the host's memory.
func Divide(list []*Session) {
	for _, part := range list {
		part.parts = len(list)
	}
}

// Only is the session on some of its devices, by index, and is to be planned.
func (s *Session) Only(devices []int) *Session {
	part := *s
	part.Devices, part.at, part.Groups = nil, nil, planning.Groups{}
	for _, d := range devices {
		part.Devices, part.at = append(part.Devices, s.Devices[d]), append(part.at, s.at[d])
	}
	part.part = ":" + string(part.Devices[0].ID())
	part.Planner = part.planner(*s.Planner)
	return &part
}

// Kinds are the devices, by index, in lists of those that compute the same bits.
func (s *Session) Kinds() (list [][]int) {
	same := func(a, b device.Spec) bool { return a.Kind == b.Kind && a.Numerics == b.Numerics }
	for d, spec := range s.Planner.Specs {
		i := slices.IndexFunc(list, func(of []int) bool { return same(s.Planner.Specs[of[0]], spec) })
		if i < 0 {
			list = append(list, []int{d})
			continue
		}
		list[i] = append(list[i], d)
	}
	return list
}
