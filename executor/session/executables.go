package session

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
)

// Executables counts the executables (compiled segments; op by op, compiled ops) that a
// run asks its devices for, by where they come from.
type Executables struct {
	Memory   int `json:"memory"`   // the device has an equal one
	Disk     int `json:"disk"`     // from the user's cache
	Compiled int `json:"compiled"` // made anew
}

// ExecutablesOf reports a count.
func ExecutablesOf(c executor.Compiled) Executables {
	return Executables{Memory: c.Memory, Disk: c.Disk, Compiled: c.Anew}
}

// Executables foretells the executables of programs that are loaded one after the other.
func (s *Session) Executables(programs []executor.LoadOptions) (all Executables, err error) {
	segments := map[int][]device.Segment{}
	for _, p := range programs {
		list, err := p.Compilations(s.of, s.rank())
		if err != nil {
			return all, err
		}
		for d, more := range list {
			segments[d] = append(segments[d], more...)
		}
	}
	var count executor.Compiled
	for _, d := range slices.Sorted(maps.Keys(segments)) {
		from, err := device.Find(s.Devices[d], segments[d])
		if err != nil {
			return all, err
		}
		for _, f := range from {
			count.Add(f)
		}
	}
	return ExecutablesOf(count), nil
}
