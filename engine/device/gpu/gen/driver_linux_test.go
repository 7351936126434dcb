package gen

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// driver is the first device of an OpenCL library. One locked thread makes all calls.
type driver struct {
	platforms     func(n uint32, list *uintptr, found *uint32) int32
	devices       func(platform uintptr, kind uint64, n uint32, list *uintptr, found *uint32) int32
	newContext    func(properties uintptr, n uint32, devices *uintptr, notify, data uintptr, status *int32) uintptr
	newQueue      func(context, device uintptr, properties uint64, status *int32) uintptr
	newBuffer     func(context uintptr, flags uint64, size uintptr, host unsafe.Pointer, status *int32) uintptr
	newProgram    func(context uintptr, n uint32, texts **byte, sizes *uintptr, status *int32) uintptr
	build         func(program uintptr, n uint32, devices *uintptr, options string, notify, data uintptr) int32
	buildInfo     func(program, device uintptr, what uint32, size uintptr, text *byte, needed *uintptr) int32
	newKernel     func(program uintptr, name string, status *int32) uintptr
	setArgument   func(kernel uintptr, i uint32, size uintptr, value unsafe.Pointer) int32
	enqueueKernel func(queue, kernel uintptr, dims uint32, offset uintptr, lanes, group *uintptr, n uint32, events, event uintptr) int32
	enqueueRead   func(queue, buffer uintptr, wait uint32, offset, size uintptr, to unsafe.Pointer, n uint32, events, event uintptr) int32
	finish        func(queue uintptr) int32

	device, context, queue uintptr
	program                uintptr
}

// openDriver opens a library, which the loader finds by name or path.
func openDriver(library string) (*driver, error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	d := &driver{}
	for name, f := range map[string]any{
		"clGetPlatformIDs": &d.platforms, "clGetDeviceIDs": &d.devices, "clCreateContext": &d.newContext,
		"clCreateCommandQueue": &d.newQueue, "clCreateBuffer": &d.newBuffer, "clCreateProgramWithSource": &d.newProgram,
		"clBuildProgram": &d.build, "clGetProgramBuildInfo": &d.buildInfo, "clCreateKernel": &d.newKernel,
		"clSetKernelArg": &d.setArgument, "clEnqueueNDRangeKernel": &d.enqueueKernel, "clEnqueueReadBuffer": &d.enqueueRead,
		"clFinish": &d.finish,
	} {
		purego.RegisterLibFunc(f, handle, name)
	}
	var platform uintptr
	const anyType = 0xFFFFFFFF
	if s := d.platforms(1, &platform, nil); s != 0 {
		return nil, fmt.Errorf("%s has no platform: %d", library, s)
	}
	if s := d.devices(platform, anyType, 1, &d.device, nil); s != 0 {
		return nil, fmt.Errorf("%s has no device: %d", library, s)
	}
	var s1, s2 int32
	d.context = d.newContext(0, 1, &d.device, 0, 0, &s1)
	d.queue = d.newQueue(d.context, d.device, 0, &s2)
	if s1 != 0 || s2 != 0 {
		return nil, fmt.Errorf("%s: context %d, queue %d", library, s1, s2)
	}
	return d, nil
}

// compile makes a text the program whose kernels run.
func (d *driver) compile(text, options string) error {
	b, size, status := []byte(text), uintptr(len(text)), int32(0)
	first := &b[0]
	d.program = d.newProgram(d.context, 1, &first, &size, &status)
	if status != 0 {
		return fmt.Errorf("create program: %d", status)
	}
	if s := d.build(d.program, 1, &d.device, options, 0, 0); s != 0 {
		const buildLog = 0x1183
		log := make([]byte, 1<<20)
		d.buildInfo(d.program, d.device, buildLog, uintptr(len(log)), &log[0], nil)
		return fmt.Errorf("build: %d\n%s", s, strings.TrimRight(string(log), "\x00"))
	}
	return nil
}

// buffer is memory of the device, with the contents of b unless nil.
func (d *driver) buffer(size int, b []byte) (uintptr, error) {
	const readWrite, copyHost = 1, 1 << 5
	var status int32
	flags, host := uint64(readWrite), unsafe.Pointer(nil)
	if len(b) > 0 {
		flags, host = readWrite|copyHost, unsafe.Pointer(&b[0])
	}
	handle := d.newBuffer(d.context, flags, uintptr(size), host, &status)
	if status != 0 {
		return 0, fmt.Errorf("buffer of %d bytes: %d", size, status)
	}
	return handle, nil
}

// read gives the contents of a buffer.
func (d *driver) read(buffer uintptr, size int) ([]byte, error) {
	b := make([]byte, size)
	if s := d.enqueueRead(d.queue, buffer, 1, 0, uintptr(size), unsafe.Pointer(&b[0]), 0, 0, 0); s != 0 {
		return nil, fmt.Errorf("read: %d", s)
	}
	return b, nil
}

// run runs a kernel of the program to its end.
func (d *driver) run(name string, lanes, group int, args ...uint64) error {
	var status int32
	kernel := d.newKernel(d.program, name, &status)
	if status != 0 {
		return fmt.Errorf("kernel %s: %d", name, status)
	}
	var errs []error
	for i := range args {
		if s := d.setArgument(kernel, uint32(i), 8, unsafe.Pointer(&args[i])); s != 0 {
			errs = append(errs, fmt.Errorf("argument %d: %d", i, s))
		}
	}
	l, g := uintptr(lanes), uintptr(group)
	if s := d.enqueueKernel(d.queue, kernel, 1, 0, &l, &g, 0, 0, 0); s != 0 {
		errs = append(errs, fmt.Errorf("launch: %d", s))
	}
	if s := d.finish(d.queue); s != 0 {
		errs = append(errs, fmt.Errorf("finish: %d", s))
	}
	return errors.Join(errs...)
}
