package berth

import (
	"cmp"
	"os"

	"github.com/berth-ml/berth/residency"
)

// hostMemory bounds the host memory of a run in a folder as the config asks. The
// room on the disk for what the weights and the optimizer's state take beyond
// the bound is taken at once.
func (s *setup) hostMemory(dir string) residency.ManagerOptions {
	c := s.config.Devices
	if c.HostMemory == 0 {
		return residency.ManagerOptions{}
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = os.TempDir() // of weights from a file
	}
	var state int64
	for _, v := range s.plan.Graph.Vars {
		state += v.Meta.Bytes()
	}
	return residency.ManagerOptions{HostBytes: c.HostMemory, SpillDir: cmp.Or(c.SpillDir, dir), SpillBytes: max(0, state-c.HostMemory)}
}
