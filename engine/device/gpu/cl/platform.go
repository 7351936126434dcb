package cl

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"
)

// found is a device of a driver.
type found struct {
	handle   uintptr
	platform string
	name     string
	version  string
	threads  int   // compute units
	memory   int64 // bytes
	object   int64 // bytes of the largest object
	shared   int64 // bytes of local memory
	group    int   // most lanes of a work group
	fp       uint64
	compiles bool
}

// Properties of platforms and devices, by their numbers in the standard.
const (
	platformName          = 0x0902
	deviceMaxComputeUnits = 0x1002
	deviceMaxGroup        = 0x1004
	deviceMaxObject       = 0x1010
	deviceFPConfig        = 0x101B
	deviceGlobalMemory    = 0x101F
	deviceLocalMemory     = 0x1023
	deviceCompiler        = 0x1028
	deviceName            = 0x102B
	deviceVersion         = 0x102F
	allTypes              = 0xFFFFFFFF
)

// fpFMA is the bit of deviceFPConfig for a fused multiply-add.
const fpFMA = 1 << 5

// devicesFound lists the devices of all drivers, driver by driver.
func devicesFound() ([]found, error) {
	c, err := newCaller()
	if err != nil {
		return nil, err
	}
	defer keepSignals()()
	platforms, err := c.handles(getPlatformIDs)
	if err != nil {
		return nil, err
	}
	var list []found
	var failures []error
	for _, p := range platforms {
		name, err := c.text(getPlatformInfo, p, platformName)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		ids, err := c.handles(getDeviceIDs, p, allTypes)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
			continue
		}
		for _, id := range ids {
			d, err := c.describe(id)
			if err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", name, err))
				continue
			}
			d.platform = name
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil, errors.Join(append([]error{errors.New("no OpenCL driver has a device")}, failures...)...)
	}
	return list, nil
}

// handles calls a function that lists handles, first for their number.
func (c *caller) handles(f function, args ...uintptr) ([]uintptr, error) {
	n := new(uint32)
	if err := c.call(f, append(append([]uintptr{}, args...), 0, 0, address(n))...); err != nil {
		return nil, err
	}
	if *n == 0 {
		return nil, nil
	}
	list := make([]uintptr, *n)
	return list, c.call(f, append(append([]uintptr{}, args...), uintptr(*n), address(&list[0]), 0)...)
}

// text asks for a property that is a text.
func (c *caller) text(f function, of, property uintptr, more ...uintptr) (string, error) {
	size := new(uintptr)
	args := append([]uintptr{of}, more...)
	if err := c.call(f, append(args, property, 0, 0, address(size))...); err != nil || *size == 0 {
		return "", err
	}
	b := make([]byte, *size)
	err := c.call(f, append(args, property, *size, address(&b[0]), 0)...)
	return string(bytes.TrimRight(b, "\x00 \n")), err
}

// number asks for a property of a device that is a number.
func number[T uint32 | uint64](c *caller, of, property uintptr) (T, error) {
	v := new(T)
	err := c.call(getDeviceInfo, of, property, unsafe.Sizeof(*v), address(v), 0)
	return *v, err
}

func (c *caller) describe(id uintptr) (d found, err error) {
	var errs [10]error
	var units, compiles uint32
	var memory, object, shared, group uint64
	d.handle = id
	d.name, errs[0] = c.text(getDeviceInfo, id, deviceName)
	d.version, errs[1] = c.text(getDeviceInfo, id, deviceVersion)
	units, errs[2] = number[uint32](c, id, deviceMaxComputeUnits)
	memory, errs[3] = number[uint64](c, id, deviceGlobalMemory)
	object, errs[4] = number[uint64](c, id, deviceMaxObject)
	shared, errs[5] = number[uint64](c, id, deviceLocalMemory)
	group, errs[6] = number[uint64](c, id, deviceMaxGroup)
	d.fp, errs[7] = number[uint64](c, id, deviceFPConfig)
	compiles, errs[8] = number[uint32](c, id, deviceCompiler)
	d.threads, d.memory, d.object, d.shared, d.group, d.compiles = int(units), int64(memory), int64(object), int64(shared), int(group), compiles != 0
	return d, errors.Join(errs[:]...)
}
