package cl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// found is a device of a driver.
type found struct {
	driver   driver
	handle   uintptr
	platform string // the driver's name
	name     string
	version  string // of OpenCL
	release  string // of the driver
	kind     uint64 // deviceIsGPU or others
	units    int    // compute units
	clock    int    // MHz; 0 if the driver does not tell
	memory   int64  // bytes
	object   int64  // bytes of the largest object
	local    int64  // bytes of local memory
	group    int    // most lanes of a work group
	fp       uint64 // bits of deviceFPConfig
	unified  bool   // its memory is the host's
}

// Properties of platforms and devices, by their numbers in the standard.
const (
	platformName        = 0x0902
	deviceType          = 0x1000
	deviceUnits         = 0x1002
	deviceMaxGroup      = 0x1004
	deviceClock         = 0x100C
	deviceMaxObject     = 0x1010
	deviceFPConfig      = 0x101B
	deviceMemory        = 0x101F
	deviceLocalMemory   = 0x1023
	deviceLittleEndian  = 0x1026
	deviceAvailable     = 0x1027
	deviceCompiler      = 0x1028
	deviceName          = 0x102B
	deviceRelease       = 0x102D
	deviceVersion       = 0x102F
	deviceUnifiedMemory = 0x1035
	allTypes            = 0xFFFFFFFF
)

// Types of devices, as bits of deviceType.
const (
	deviceIsCPU = 1 << 1
	deviceIsGPU = 1 << 2
)

// devicesFound lists the devices of all drivers: GPUs first, else in the drivers'
// order. What cannot be used is left out; troubles says why.
func devicesFound(d driver) (list []found, troubles []error) {
	defer keepSignals()()
	c := &caller{driver: d}
	platforms, err := c.handles(getPlatformIDs)
	if e, ok := errors.AsType[*callError](err); ok && e.status == noPlatform {
		return nil, nil
	}
	if err != nil {
		return nil, []error{err}
	}
	for _, p := range platforms {
		more, failures := devicesOf(d, p)
		list, troubles = append(list, more...), append(troubles, failures...)
	}
	slices.SortStableFunc(list, func(a, b found) int { return int(b.kind&deviceIsGPU) - int(a.kind&deviceIsGPU) })
	return list, troubles
}

// devicesOf lists the devices of one driver.
func devicesOf(d driver, platform uintptr) (list []found, troubles []error) {
	c := &caller{driver: d}
	var err error
	if c.name, err = c.text(getPlatformInfo, platform, platformName); err != nil {
		return nil, []error{err}
	}
	ids, err := c.handles(getDeviceIDs, platform, allTypes)
	if e, ok := errors.AsType[*callError](err); ok && e.status == deviceNotFound {
		return nil, []error{fmt.Errorf("the OpenCL driver %s has no device", c.name)}
	}
	if err != nil {
		return nil, []error{err}
	}
	for _, id := range ids {
		x, err := c.describe(id)
		if err != nil {
			troubles = append(troubles, err)
			continue
		}
		list = append(list, x)
	}
	return list, troubles
}

// handles calls a function that lists handles, first for their number.
func (c *caller) handles(f function, args ...uintptr) ([]uintptr, error) {
	var n uint32
	args = args[:len(args):len(args)]
	if err := c.call(f, append(args, 0, 0, at(c, &n))...); err != nil || n == 0 {
		return nil, err
	}
	list := make([]uintptr, n)
	err := c.call(f, append(args, uintptr(n), at(c, &list[0]), 0)...)
	return list, err
}

// text asks for a property that is a text.
func (c *caller) text(f function, of ...uintptr) (string, error) {
	var size uintptr
	of = of[:len(of):len(of)]
	if err := c.call(f, append(of, 0, 0, at(c, &size))...); err != nil || size == 0 {
		return "", err
	}
	b := make([]byte, size)
	err := c.call(f, append(of, size, at(c, &b[0]), 0)...)
	return string(bytes.TrimRight(b, "\x00 \n")), err
}

// asker asks a driver about a device, until a question fails.
type asker struct {
	*caller
	id  uintptr
	err error
}

func (a *asker) number(property uintptr) int64 {
	var v uint64 // drivers write 4 or 8 bytes of it, the lowest first
	if a.err == nil {
		a.err = a.call(getDeviceInfo, a.id, property, unsafe.Sizeof(v), at(a.caller, &v), 0)
	}
	return int64(v)
}

func (a *asker) words(property uintptr) (s string) {
	if a.err == nil {
		s, a.err = a.text(getDeviceInfo, a.id, property)
	}
	return s
}

// older tells whether a version is one before OpenCL 1.2.
func older(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "OpenCL %d.%d", &major, &minor)
	return n == 2 && (major < 1 || major == 1 && minor < 2)
}

// describe asks for what is to be known about a device, and refuses one that cannot
// be used.
func (c *caller) describe(id uintptr) (found, error) {
	a := asker{caller: c, id: id}
	d := found{driver: c.driver, handle: id, platform: c.name,
		name: a.words(deviceName), version: a.words(deviceVersion), release: a.words(deviceRelease),
		kind: uint64(a.number(deviceType)), units: int(a.number(deviceUnits)), clock: int(a.number(deviceClock)),
		memory: a.number(deviceMemory), object: a.number(deviceMaxObject), local: a.number(deviceLocalMemory),
		group: int(a.number(deviceMaxGroup)), fp: uint64(a.number(deviceFPConfig)), unified: a.number(deviceUnifiedMemory) != 0}
	trouble := ""
	switch {
	case a.number(deviceAvailable) == 0:
		trouble = "it is not available"
	case a.number(deviceCompiler) == 0:
		trouble = "its driver has no compiler"
	case older(d.version):
		trouble = "it has " + d.version + ", and OpenCL 1.2 is needed"
	case a.number(deviceLittleEndian) == 0:
		trouble = "it is big-endian"
	case d.memory <= 0 || d.object <= 0:
		trouble = "its driver tells no size of its memory"
	case d.group <= 0:
		trouble = "its driver tells no size of its work groups"
	}
	if a.err == nil && trouble != "" {
		return d, fmt.Errorf("driver %s: %s cannot be used: %s", c.name, d.name, trouble)
	}
	return d, a.err
}
