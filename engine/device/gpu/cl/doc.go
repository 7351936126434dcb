// Package cl is the kind of device "opencl": whatever an OpenCL 1.2 driver offers,
// with memory of its own. The driver is found at run time, without cgo.
//
// Streams, buffers and launches are those of package streams, kernels those that
// package gen writes. A device's memory is one object of the driver, as large as
// the budget; kernels get offsets into it.
//
// A driver may put handlers of its own in the place of Go's for signals. They are
// put back at once (signals_linux.go).
//
// The files use each other downwards: cl; program, times, choose; library; executables; compile; memory, hostmemory; context;
// platform, numerics; calls, errors; load.
package cl
