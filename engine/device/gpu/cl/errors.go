package cl

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// status is the result of a call.
type status int32

// The statuses that mean more than a mistake of ours.
const (
	deviceNotFound      status = -1
	deviceNotAvailable  status = -2
	allocationFailure   status = -4
	outOfResources      status = -5
	outOfHostMemory     status = -6
	buildFailure        status = -11
	waitListFailure     status = -14
	invalidDevice       status = -33
	invalidContext      status = -34
	invalidQueue        status = -36
	invalidBinary       status = -42
	invalidBufferSize   status = -61
	noPlatform          status = -1001
	nvidiaIllegalAccess status = -9999
)

// statusNames are the standard's names, without CL_.
var statusNames = map[status]string{
	-1: "DEVICE_NOT_FOUND", -2: "DEVICE_NOT_AVAILABLE", -3: "COMPILER_NOT_AVAILABLE", -4: "MEM_OBJECT_ALLOCATION_FAILURE",
	-5: "OUT_OF_RESOURCES", -6: "OUT_OF_HOST_MEMORY", -7: "PROFILING_INFO_NOT_AVAILABLE", -8: "MEM_COPY_OVERLAP",
	-11: "BUILD_PROGRAM_FAILURE", -12: "MAP_FAILURE", -13: "MISALIGNED_SUB_BUFFER_OFFSET",
	-14: "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", -30: "INVALID_VALUE", -31: "INVALID_DEVICE_TYPE", -32: "INVALID_PLATFORM",
	-33: "INVALID_DEVICE", -34: "INVALID_CONTEXT", -35: "INVALID_QUEUE_PROPERTIES", -36: "INVALID_COMMAND_QUEUE",
	-37: "INVALID_HOST_PTR", -38: "INVALID_MEM_OBJECT", -42: "INVALID_BINARY", -43: "INVALID_BUILD_OPTIONS", -44: "INVALID_PROGRAM",
	-45: "INVALID_PROGRAM_EXECUTABLE", -46: "INVALID_KERNEL_NAME", -47: "INVALID_KERNEL_DEFINITION", -48: "INVALID_KERNEL",
	-49: "INVALID_ARG_INDEX", -50: "INVALID_ARG_VALUE", -51: "INVALID_ARG_SIZE", -52: "INVALID_KERNEL_ARGS",
	-53: "INVALID_WORK_DIMENSION", -54: "INVALID_WORK_GROUP_SIZE", -55: "INVALID_WORK_ITEM_SIZE", -57: "INVALID_EVENT_WAIT_LIST",
	-59: "INVALID_OPERATION", -61: "INVALID_BUFFER_SIZE", -63: "INVALID_GLOBAL_WORK_SIZE", -1001: "PLATFORM_NOT_FOUND_KHR",
}

// String is the standard's name and the number.
func (s status) String() string {
	if name := statusNames[s]; name != "" {
		return fmt.Sprintf("CL_%s (%d)", name, int32(s))
	}
	return fmt.Sprintf("error %d", int32(s))
}

// callError is a call that failed.
type callError struct {
	driver   string
	function function
	status   status
}

// failure is the error of a call's status; nil if it went well.
func (c *caller) failure(f function, s status) error {
	if s == 0 {
		return nil
	}
	return &callError{c.name, f, s}
}

// Error names driver, function and status.
func (e *callError) Error() string {
	text := fmt.Sprintf("%s: %v", functionNames[e.function], e.status)
	if e.driver != "" {
		text = fmt.Sprintf("driver %s: %s", e.driver, text)
	}
	if cause := e.Unwrap(); cause != nil {
		text = fmt.Sprintf("%v: %s", cause, text)
	}
	return text
}

// works lists the functions that hand work to an open device.
var works = []function{setKernelArg, enqueueNDRangeKernel, enqueueReadBuffer, enqueueWriteBuffer, enqueueCopyBuffer, finish}

// Unwrap is the cause among those of package device; nil if there is none. Drivers
// report a device that crashed by many statuses, of the next call that waits.
func (e *callError) Unwrap() error {
	waits := e.function == finish || e.function == enqueueReadBuffer || e.function == enqueueWriteBuffer
	switch e.status {
	case deviceNotAvailable, invalidDevice, invalidContext, invalidQueue, nvidiaIllegalAccess:
		if slices.Contains(works, e.function) {
			return device.ErrLost
		}
	case outOfResources, waitListFailure:
		if waits {
			return device.ErrLost
		}
	case allocationFailure, outOfHostMemory, invalidBufferSize:
		return device.ErrOutOfMemory
	}
	return nil
}
