package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
)

// ByPercentage tells whether a limit on memory is a percentage.
func ByPercentage(c configs.Devices) bool {
	return c.Memory.Percent > 0 || slices.ContainsFunc(c.Each, func(e configs.DeviceEntry) bool { return e.Memory.Percent > 0 })
}

// byPercentage is ByPercentage of the session's config; with ranks, of that of any.
func (s *Session) byPercentage() (bool, error) {
	own := ByPercentage(s.Config.Devices)
	if s.held.crew == nil {
		return own, nil
	}
	all, err := s.held.crew.Gather(context.Background(), "its limits on memory", []byte(strconv.FormatBool(own)))
	return slices.ContainsFunc(all, func(b []byte) bool { return string(b) == "true" }), err
}

// limited is the config with bytes in place of percentages of the devices' peaks. at is the index
// in the config of each device that has a spec and a peak; other devices have no percentage then.
// It says what became of each percentage. Without one, the config is as it was.
func limited(c configs.Devices, at []int, specs []device.Spec, peaks []int64) (out configs.Devices, notes []string, err error) {
	each, err := oneByOne(c)
	if err != nil {
		return c, nil, err
	}
	same := true
	for i := range each {
		m := &each[i].Memory
		switch d := slices.Index(at, i); {
		case m.Percent > 0 && d < 0:
			*m = configs.Memory{}
		case m.Percent > 0:
			bytes := m.Of(peaks[d])
			notes = append(notes, limitNote(specs[d].ID, *m, bytes, peaks[d]))
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

// limitNote says how many bytes a percentage of a device's peak became.
func limitNote(id device.ID, m configs.Memory, bytes, peak int64) string {
	note := fmt.Sprintf("%s may use %s (%d bytes): ", id, units.Bytes(bytes), bytes)
	if peak == 0 {
		return note + "the plan does not use it, and this is the least that a device can have"
	}
	note += fmt.Sprintf("%v of the %s that the plan takes there without a limit", m, units.Bytes(peak))
	if bytes == configs.LeastMemory {
		note += ", or the least that a device can have"
	}
	return note
}

// enoughOf is the least whole percentage of a device's peak that is so many bytes, for people: "44%; ". It is empty where all of it
// is too little.
func enoughOf(peak, bytes int64) string {
	for percent := 1; percent <= 100 && peak > 0; percent++ {
		if (configs.Memory{Percent: float64(percent)}).Of(peak) >= bytes {
			return fmt.Sprintf("%d%%; ", percent)
		}
	}
	return ""
}

// memoryFrom names the place that limits the memory of a device: a flag, a
// variable, or a line of the config. Without a limit it names the key.
func memoryFrom(c *configs.Config, dev int) string {
	key, limit := "devices.memory", c.Devices.Memory
	var p configs.Pos // none for shared devices, whose limit their owner gave
	if c.Given(key) {
		p = c.Where(key)
	}
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
