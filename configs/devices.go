package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WithDefaults is v with the default of each key in place of a zero field. Devices
// that Load or Parse gives have them already.
func (v Devices) WithDefaults() Devices {
	var defaults Devices
	devicesSection.decode(newDecoder("", Keys), nil, "devices", &defaults)
	if len(v.Each) == 0 {
		v.Use = cmp.Or(v.Use, defaults.Use)
	}
	v.Timeout, v.OnLoss = cmp.Or(v.Timeout, defaults.Timeout), cmp.Or(v.OnLoss, defaults.OnLoss)
	v.OpByOp = cmp.Or(v.OpByOp, defaults.OpByOp)
	v.Compile, v.Compiled = cmp.Or(v.Compile, defaults.Compile), cmp.Or(v.Compiled, defaults.Compiled)
	return v
}

// Runs reports whether OpByOp has a mode.
func (v Devices) Runs(opByOp string) bool {
	return slices.Contains(strings.Split(v.OpByOp, ","), opByOp)
}

// IsOpByOp reports whether each op runs by itself.
func (v Devices) IsOpByOp() bool { return v.OpByOp != "" && v.OpByOp != OpByOpNone }

// CompilesBeside reports whether segments are compiled while steps run op by op.
func (v Devices) CompilesBeside() bool { return v.Compile == CompileBeside && !v.IsOpByOp() }

// Check reports the mistakes of devices that code has changed or made, as
// [Config.Check] does of a whole config.
func (v Devices) Check() error {
	v = v.WithDefaults()
	text, err := yaml.Marshal(devicesSection.encode(&v, func(*key) bool { return true }))
	if err != nil {
		return fmt.Errorf("write devices: %w", err)
	}
	root, err := readYAML("", text)
	if err != nil {
		return err
	}
	d := newDecoder("", Keys)
	c := &Config{where: d.where}
	devicesSection.decode(d, root, "devices", &c.Devices)
	if len(d.faults) == 0 {
		resolveDevices(d, c)
	}
	return d.unplaced()
}

// resolveDevices leaves one of the two forms of devices. An override of one
// form replaces the other form of the file.
func resolveDevices(d *decoder, c *Config) {
	v := &c.Devices
	outside := func(key string) bool { return d.where["devices."+key].Line == 0 }
	given := func(key string) bool {
		_, ok := d.where["devices."+key]
		return ok && (outside(key) || !outside("each"))
	}
	if v.HostMemory == 0 && given("host_memory") && outside("host_memory") && !outside("spill_dir") {
		v.SpillDir = "" // of the bound that is lifted
	}
	if v.SpillDir != "" && v.HostMemory == 0 {
		d.against([]string{"devices.spill_dir"}, "nothing is spilled unless devices.host_memory limits host memory; set devices.host_memory too, or leave spill_dir out")
	}
	if len(v.Each) == 0 {
		return
	}
	switch {
	case given("use") && outside("use") && !outside("each"):
		if limited := func(e DeviceEntry) bool { return e.Memory != Memory{} }; !given("memory") && slices.ContainsFunc(v.Each, limited) {
			c.UnlimitedBy = d.where["devices.use"]
		}
		v.Each = nil
		return
	case given("use"):
		d.against([]string{"devices.use", "devices.each"}, "use and each exclude each other; give one of the two")
	}
	if given("threads") {
		v.divideThreads()
	}
	for i := range v.Each {
		if given("memory") {
			v.Each[i].Memory, v.Each[i].Pos = v.Memory, d.where["devices.memory"]
		}
	}
	v.Use, v.Threads, v.Memory = "", 0, Memory{}
}

// divideThreads gives every entry its part of Threads: each device has as many
// as any other or one more, the first ones more, and at least one.
func (v *Devices) divideThreads() {
	total := 0
	for i := range v.Each {
		total += v.Each[i].count()
	}
	device := 0
	for i := range v.Each {
		e := &v.Each[i]
		e.Threads = 0
		for range e.count() {
			if v.Threads > 0 {
				e.Threads += max(1, (v.Threads+total-1-device)/total)
			}
			device++
		}
	}
}

// count is the number of devices of an entry.
func (e *DeviceEntry) count() int {
	_, text, _ := strings.Cut(e.Use, ":")
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1 // a kind alone
	}
	return n
}
