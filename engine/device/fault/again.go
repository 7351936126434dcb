package fault

import (
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// Again gives devices that were opened in place of others the faults of those. Operations
// are counted on. A device that was lost works again.
func Again(devs, before []device.Device) []device.Device {
	list := slices.Clone(devs)
	for _, b := range before {
		old, ok := b.(*Device)
		i := slices.IndexFunc(devs, func(d device.Device) bool { return d.ID() == b.ID() })
		if ok && old.faults != nil && i >= 0 {
			c := old.faults.again()
			list[i] = &Device{Device: devs[i], hook: c.hit, faults: c}
		}
	}
	return list
}

// again counts on for a device that takes the place of c's.
func (c *counter) again() *counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &counter{faults: c.faults, seen: maps.Clone(c.seen)}
}
