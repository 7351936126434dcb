package cl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// names lists devices.
func names(list []found) (out []string) {
	for _, x := range list {
		out = append(out, x.name)
	}
	return out
}

// Devices are listed over all drivers, GPUs first; those that cannot be used are named.
func TestChosen(t *testing.T) {
	cpu := fakePlatform{name: "Portable", devices: []fakeDevice{{name: "cores"}}}
	gpu := fakePlatform{name: "Vendor", devices: []fakeDevice{{name: "small", numbers: map[uintptr]uint64{deviceType: deviceIsGPU}}, {name: "big", numbers: map[uintptr]uint64{deviceType: deviceIsGPU}}}}
	refuses := fakePlatform{name: "Broken", failure: outOfHostMemory}
	lacks := fakePlatform{name: "Lean", devices: []fakeDevice{{name: "lean", numbers: map[uintptr]uint64{deviceCompiler: 0}}, {name: "old", version: "OpenCL 1.1 x"}}}
	odd := fakePlatform{name: "Odd", devices: []fakeDevice{{name: "odd", numbers: map[uintptr]uint64{deviceMaxGroup: 0}}}}
	for _, c := range []struct {
		drivers []fakePlatform
		text    string
		want    []string
		err     string // a part of it; "" for none
		cause   error
	}{
		{err: "pocl-opencl-icd", cause: device.ErrAbsent},
		{drivers: []fakePlatform{{name: "Empty"}}, err: "driver Empty has no device", cause: device.ErrAbsent},
		{drivers: []fakePlatform{cpu, gpu}, want: []string{"small", "big", "cores"}},
		{drivers: []fakePlatform{cpu, gpu}, text: "portable", want: []string{"cores"}},
		{drivers: []fakePlatform{cpu, gpu}, text: "BIG", want: []string{"big"}},
		{drivers: []fakePlatform{cpu, gpu}, text: "tpu", err: "give a part of one of these: small (driver Vendor, OpenCL 1.2); big (driver Vendor, OpenCL 1.2); cores (driver Portable, OpenCL 1.2)", cause: device.ErrEnvironment},
		{drivers: []fakePlatform{refuses, cpu}, want: []string{"cores"}, err: "driver Broken: clGetDeviceIDs: CL_OUT_OF_HOST_MEMORY (-6)"},
		{drivers: []fakePlatform{lacks}, err: "old cannot be used: it has OpenCL 1.1 x, and OpenCL 1.2 is needed", cause: device.ErrAbsent},
		{drivers: []fakePlatform{lacks, refuses}, err: "lean cannot be used: its driver has no compiler", cause: device.ErrAbsent},
		{drivers: []fakePlatform{odd}, err: "odd cannot be used: its driver tells no size of its work groups", cause: device.ErrAbsent},
	} {
		got, err := chosen(&fake{c.drivers}, c.text)
		if !slices.Equal(names(got), c.want) {
			t.Errorf("%v %q: %q, want %q", c.drivers, c.text, names(got), c.want)
		}
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || c.cause != nil && !errors.Is(err, c.cause)) {
			t.Errorf("%v %q: error %v, want %q", c.drivers, c.text, err, c.err)
		}
	}
}

// Budgets are within what a device has, and several devices share it only where asked.
func TestAssign(t *testing.T) {
	list := []found{{name: "a", memory: 1000, object: 500}, {name: "b", memory: 300, object: 300}}
	each := func(bytes ...int64) (out []device.Share) {
		for _, b := range bytes {
			out = append(out, device.Share{MemoryBytes: b})
		}
		return out
	}
	for _, c := range []struct {
		o    device.OpenOptions
		want []opening
		err  string
	}{
		{o: device.OpenOptions{Count: 1}, want: []opening{{0, 500}}},
		{o: device.OpenOptions{Count: 2}, want: []opening{{0, 500}, {1, 240}}},
		{o: device.OpenOptions{Count: 3}, err: "3 devices asked for, but there are 2"},
		{o: device.OpenOptions{Count: 3, Shared: true}, want: []opening{{0, 400}, {1, 240}, {0, 400}}},
		{o: device.OpenOptions{Count: 4, Shared: true, Each: each(100, 0, 0, 50)}, want: []opening{{0, 100}, {1, 190}, {0, 400}, {1, 50}}},
		{o: device.OpenOptions{Count: 1, MemoryBytes: 501}, err: "a single allocation on a has at most 500 B"},
		{o: device.OpenOptions{Count: 3, Shared: true, Each: each(400, 1, 601)}, err: "a single allocation on a has at most"},
		{o: device.OpenOptions{Count: 5, Shared: true, MemoryBytes: 290}, err: "budgets on b are 580 B together, but it has 300 B"},
	} {
		got, err := assign(c.o, list)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v, %v; want %v, %s", c.o, got, err, c.want, c.err)
		}
		if err != nil && c.o.MemoryBytes > 0 && !errors.Is(err, device.ErrBudget) {
			t.Errorf("%+v: %v is no ErrBudget", c.o, err)
		}
	}
}
