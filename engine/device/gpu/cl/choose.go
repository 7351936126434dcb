package cl

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/units"
)

// Variable is the environment variable that chooses among the devices of all drivers:
// those count of which the name, the driver's name or the version contains its text.
const Variable = "BERTH_OPENCL"

// install says how to get a driver, or to do without.
const install = "install the driver of your GPU with its OpenCL part, or pocl-opencl-icd (Debian, Ubuntu) for the CPU; or use another kind of device (--devices cpu)"

// usable lists the devices that may be used. Its error also tells of those that cannot.
func usable() ([]found, error) {
	d, err := system()
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s", device.ErrAbsent, err, install)
	}
	return chosen(d, os.Getenv(Variable))
}

// chosen lists the devices of a loader's drivers whose names contain a text. Its error
// also tells of devices that cannot be used.
func chosen(d driver, text string) ([]found, error) {
	all, troubles := devicesFound(d)
	var list []found
	var names []string
	for _, x := range all {
		names = append(names, fmt.Sprintf("%s (driver %s, %s)", x.name, x.platform, x.version))
		if strings.Contains(strings.ToLower(names[len(names)-1]), strings.ToLower(text)) {
			list = append(list, x)
		}
	}
	switch {
	case len(list) > 0:
		return list, errors.Join(troubles...)
	case len(all) > 0:
		return nil, fmt.Errorf("%w: %s: no device's or driver's name contains %q: give a part of one of these: %s", device.ErrEnvironment, Variable, text, strings.Join(names, "; "))
	case troubles != nil:
		return nil, fmt.Errorf("%w: %w", device.ErrAbsent, errors.Join(troubles...))
	}
	return nil, fmt.Errorf("%w: no OpenCL driver is installed: %s", device.ErrAbsent, install)
}

// opening is a device to open.
type opening struct {
	of     int   // index in the list of those found
	budget int64 // bytes
}

// assign decides which of the devices found each device of o is, and its budget. With
// o.Shared they take turns; otherwise each is another one.
func assign(o device.OpenOptions, list []found) ([]opening, error) {
	if o.Count > len(list) && !o.Shared {
		return nil, fmt.Errorf("%w: %s asked for, but there %s: ask for fewer, or let several share one (--share-device)",
			device.ErrAbsent, units.Count(o.Count, "device"), isAre(len(list)))
	}
	// Device i is number i mod n of the n found, so those on number f are f, f+n, f+2n, …
	out := make([]opening, o.Count)
	for f := range min(o.Count, len(list)) {
		part := o
		part.Count, part.Each = 0, nil
		for i := f; i < o.Count; i += len(list) {
			part.Count++
			if o.Each != nil {
				part.Each = append(part.Each, o.Each[i])
			}
		}
		shares, err := part.Shares(1, func(count int) (int64, error) { return defaultBudget(list[f], count) })
		if err != nil {
			return nil, err
		}
		if err := fits(list[f], shares); err != nil {
			return nil, err
		}
		for k, s := range shares {
			out[f+k*len(list)] = opening{f, s.MemoryBytes}
		}
	}
	return out, nil
}

func isAre(n int) string {
	if n == 1 {
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

// shareOfMemory is the part of a device's own memory that its budgets take together
// if none is given. The rest is for the driver, and for the screen.
const shareOfMemory = 0.8

// defaultBudget is the budget in bytes of each of count devices on one of a driver.
func defaultBudget(of found, count int) (int64, error) {
	budget := int64(float64(of.memory)*shareOfMemory) / int64(count)
	if of.unified {
		free, err := host.DefaultBudget(count)
		if err != nil {
			return 0, err
		}
		budget = min(budget, free)
	}
	return min(budget, of.object), nil
}

// fits refuses budgets that a device cannot have. Drivers find out too late: some hand
// out more memory than there is.
func fits(of found, shares []device.Share) error {
	var sum int64
	for _, s := range shares {
		sum += s.MemoryBytes
		if s.MemoryBytes > of.object {
			asked, most := units.TwoBytes(s.MemoryBytes, of.object)
			return fmt.Errorf("%w: it is %s, but a single allocation on %s has at most %s: lower the budget (devices.memory)", device.ErrBudget, asked, of.name, most)
		}
	}
	if sum > of.memory {
		asked, most := units.TwoBytes(sum, of.memory)
		return fmt.Errorf("%w: the budgets on %s are %s together, but it has %s: lower them (devices.memory)", device.ErrBudget, of.name, asked, most)
	}
	return nil
}
