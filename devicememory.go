package berth

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// byPercentage tells whether a limit on memory is a percentage.
func byPercentage(c configs.Devices) bool {
	return c.Memory.Percent > 0 || slices.ContainsFunc(c.Each, func(e configs.DeviceEntry) bool { return e.Memory.Percent > 0 })
}

// oneByOne lists the config's devices, an entry for each.
func oneByOne(c configs.Devices) ([]configs.DeviceEntry, error) {
	entries := c.Each
	if len(entries) == 0 {
		entries = []configs.DeviceEntry{{Pos: c.Pos, Use: c.Use, Threads: c.Threads, Memory: c.Memory}}
	}
	var out []configs.DeviceEntry
	for _, e := range entries {
		list, err := device.ParseList(e.Use)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			for _, s := range sharesOf(e, x.Count) {
				out = append(out, configs.DeviceEntry{Pos: e.Pos, Use: x.Kind, Threads: s.Threads, Memory: e.Memory})
			}
		}
	}
	return out, nil
}

// limited is the config with bytes in place of percentages of the devices'
// peaks. It says what became of each percentage. Without one, the config is as
// it was.
func limited(c configs.Devices, specs []device.Spec, peaks []int64) (out configs.Devices, notes []string, err error) {
	each, err := oneByOne(c)
	if err != nil {
		return c, nil, err
	}
	same := true
	for i := range each {
		m := &each[i].Memory
		if peak := peaks[i]; m.Percent > 0 {
			bytes := m.Of(peak)
			note := fmt.Sprintf("%s may use %s (%d bytes): %v of the %s that the plan takes there without a limit", specs[i].ID, units.Bytes(bytes), bytes, m, units.Bytes(peak))
			if bytes == configs.LeastMemory {
				note += ", or the least that a device can have"
			}
			notes = append(notes, note)
			*m = configs.Memory{Bytes: bytes}
		}
		same = same && *m == each[0].Memory
	}
	switch {
	case notes == nil:
		return c, nil, nil
	case len(c.Each) == 0 && same:
		c.Memory = each[0].Memory
		return c, notes, nil
	}
	c.Use, c.Threads, c.Memory, c.Each = "", 0, configs.Memory{}, each
	return c, notes, nil
}

// memoryFrom names the place that limits the memory of a device: a flag, a
// variable, or a line of the config. Without a limit it names the key.
func memoryFrom(c *configs.Config, dev int) string {
	p, key, limit := c.Where("devices.memory"), "devices.memory", c.Devices.Memory
	if each, err := oneByOne(c.Devices); err == nil && len(c.Devices.Each) > 0 && dev < len(each) {
		p, key, limit = each[dev].Pos, "memory in devices", each[dev].Memory
	}
	switch {
	case limit == (configs.Memory{}) || p == (configs.Pos{}):
		return key
	case p.Line > 0:
		return fmt.Sprintf("%s, %s", key, p)
	}
	return "now " + p.File
}

// tight says of each device whether the plan takes more memory than it may.
func (s *setup) tight() []bool {
	list := make([]bool, len(s.devs))
	for i := range s.plan.Memory {
		f := &s.plan.Memory[i]
		list[f.Device] = f.Tight()
	}
	return list
}

// floorsAndPeaks are the plan's, in bytes of each device.
func (s *setup) floorsAndPeaks() (floors, peaks []int64) {
	floors, peaks = make([]int64, len(s.devs)), make([]int64, len(s.devs))
	for i := range s.plan.Memory {
		f := &s.plan.Memory[i]
		floors[f.Device], peaks[f.Device] = f.Floor, f.Peak
	}
	return floors, peaks
}

// anyTight reports whether a device may use less memory than the plan takes.
func (s *setup) anyTight() bool { return slices.Contains(s.tight(), true) }
