package cl

import (
	"fmt"
	"sync"
	"unsafe"
)

// function numbers the functions of OpenCL that are used.
type function int

const (
	getPlatformIDs function = iota
	getPlatformInfo
	getDeviceIDs
	getDeviceInfo
	createContext
	releaseContext
	createCommandQueue
	releaseCommandQueue
	createBuffer
	releaseMemObject
	createProgramWithSource
	buildProgram
	getProgramBuildInfo
	releaseProgram
	createKernel
	releaseKernel
	setKernelArg
	enqueueNDRangeKernel
	enqueueReadBuffer
	enqueueWriteBuffer
	enqueueCopyBuffer
	finish
	numFunctions int = iota
)

var functionNames = [numFunctions]string{
	"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext", "clReleaseContext",
	"clCreateCommandQueue", "clReleaseCommandQueue", "clCreateBuffer", "clReleaseMemObject", "clCreateProgramWithSource",
	"clBuildProgram", "clGetProgramBuildInfo", "clReleaseProgram", "clCreateKernel", "clReleaseKernel", "clSetKernelArg",
	"clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clEnqueueCopyBuffer", "clFinish",
}

// functions are the addresses, once they are loaded.
var functions = sync.OnceValues(func() ([numFunctions]uintptr, error) {
	defer keepSignals()()
	return load()
})

// caller is the memory of a call's arguments, which must not lie on a stack. It
// serves one goroutine at a time.
type caller struct {
	f    [numFunctions]uintptr
	args [12]uintptr
}

func newCaller() (*caller, error) {
	f, err := functions()
	if err != nil {
		return nil, err
	}
	return &caller{f: f}, nil
}

// call calls a function whose result is a status.
func (c *caller) call(f function, args ...uintptr) error {
	if s := status(int32(c.raw(f, args...))); s != 0 {
		return fmt.Errorf("%s: %w", functionNames[f], s)
	}
	return nil
}

// raw calls a function.
func (c *caller) raw(f function, args ...uintptr) uintptr {
	n := copy(c.args[:], args)
	return syscall(c.f[f], c.args[:n])
}

// create calls a function whose result is a handle, and whose last argument is the
// address of a status.
func (c *caller) create(f function, args ...uintptr) (uintptr, error) {
	s := new(status)
	h := c.raw(f, append(args, address(s))...)
	if *s != 0 {
		return 0, fmt.Errorf("%s: %w", functionNames[f], *s)
	}
	return h, nil
}

// address is where something lies, which must be on the heap.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// status is the result of a call.
type status int32

// Error names the statuses that a user may meet.
func (s status) Error() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return fmt.Sprintf("OpenCL error %d", int32(s))
}

var statusNames = map[status]string{
	-1: "no device was found", -2: "the device is not available", -3: "the driver has no compiler",
	-4: "the driver could not allocate the memory", -5: "the device is out of resources", -6: "the host is out of memory",
	-11: "the program does not compile", -30: "a value is invalid", -36: "the command queue is invalid", -38: "the memory object is invalid",
	-48: "the kernel is invalid", -52: "a kernel argument is missing", -54: "the size of a work group is invalid",
	-61: "the buffer is too large", -1001: "no driver is installed",
}
