package berth

import (
	"cmp"
	"os"

	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// hostMemory bounds the host memory of a run in a folder as the config asks. Room
// on the disk for all that can be beyond the bound is taken at once: the state
// before the first step, and what a step takes on devices that have too little.
func (s *setup) hostMemory(dir string) residency.ManagerOptions {
	c, name := s.config.Devices, "the run in "+dir
	if c.HostMemory == 0 {
		return residency.ManagerOptions{Name: name}
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = os.TempDir() // of weights from a file
	}
	var state, step int64
	for _, v := range s.plan.Graph.Vars {
		state += v.Meta.Bytes()
	}
	for i := range s.plan.Memory {
		if f := &s.plan.Memory[i]; f.Tight() {
			step += f.Peak
		}
	}
	return residency.ManagerOptions{
		Name: name, HostBytes: c.HostMemory, SpillDir: cmp.Or(c.SpillDir, dir), SpillBytes: max(0, max(state, step)-c.HostMemory),
	}
}

// room is the bytes that parameters can take: on the devices, and on the host,
// where those go that a device has no room for. 0 is no limit.
func (s *setup) room() int64 {
	if s.config.Devices.HostMemory > 0 {
		return 0 // the rest goes to a file
	}
	room := partition.Room(s.specs())
	if free, err := host.Available(); room > 0 && err == nil {
		room += free
	}
	return room
}
