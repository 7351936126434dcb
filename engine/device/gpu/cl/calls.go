package cl

import (
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
	createProgramWithBinary
	buildProgram
	getProgramInfo
	getProgramBuildInfo
	releaseProgram
	createKernel
	releaseKernel
	getKernelWorkGroupInfo
	setKernelArg
	enqueueNDRangeKernel
	enqueueReadBuffer
	enqueueWriteBuffer
	enqueueCopyBuffer
	enqueueMapBuffer
	enqueueUnmapMemObject
	finish
	numFunctions int = iota
)

var functionNames = [numFunctions]string{
	"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext", "clReleaseContext",
	"clCreateCommandQueue", "clReleaseCommandQueue", "clCreateBuffer", "clReleaseMemObject", "clCreateProgramWithSource", "clCreateProgramWithBinary",
	"clBuildProgram", "clGetProgramInfo", "clGetProgramBuildInfo", "clReleaseProgram", "clCreateKernel", "clReleaseKernel", "clGetKernelWorkGroupInfo", "clSetKernelArg",
	"clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clEnqueueCopyBuffer", "clEnqueueMapBuffer", "clEnqueueUnmapMemObject", "clFinish",
}

// driver is OpenCL's functions: the system's, or a test's.
type driver interface {
	// call calls a function. args lies on the heap.
	call(f function, args []uintptr) uintptr
}

// system is the system's loader of drivers. It is loaded once.
var system = sync.OnceValues(func() (driver, error) {
	defer keepSignals()()
	return load()
})

// caller calls a driver. It serves one goroutine at a time.
type caller struct {
	driver driver
	name   string // of the driver; "" for the loader itself
	args   [12]uintptr
	held   []unsafe.Pointer // the memory that the next call's arguments point to
	status status           // of the last create
}

// at is the address of memory, as an argument of the caller's next call. The memory
// lies on the heap until then, and so does not move.
func at[T any](c *caller, p *T) uintptr {
	c.held = append(c.held, unsafe.Pointer(p))
	return uintptr(unsafe.Pointer(p))
}

// call calls a function whose result is a status.
func (c *caller) call(f function, args ...uintptr) error {
	return c.failure(f, status(int32(c.raw(f, args...))))
}

// create calls a function whose result is a handle, and whose last argument is the
// address of a status.
func (c *caller) create(f function, args ...uintptr) (uintptr, error) {
	n := copy(c.args[:], args)
	c.args[n] = at(c, &c.status)
	h := c.do(f, n+1)
	return h, c.failure(f, c.status)
}

// raw calls a function.
func (c *caller) raw(f function, args ...uintptr) uintptr { return c.do(f, copy(c.args[:], args)) }

// do calls a function with the first n of c.args.
func (c *caller) do(f function, n int) uintptr {
	r := c.driver.call(f, c.args[:n])
	clear(c.held)
	c.held = c.held[:0]
	return r
}
