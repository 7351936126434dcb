// Package cl is the kind of device "opencl": whatever an OpenCL 1.2 driver offers,
// with memory of its own. The driver is found at run time, without cgo.
//
// Streams, buffers and launches are those of package streams, kernels those that
// package gen writes.
//
// A device's memory is one object of the driver, as large as the budget. Kernels get
// offsets into it; there are no sub-buffers, so a driver's alignment of them does not
// matter. Several devices of the kind may share a physical device, and then its context.
//
// Each copy and each launch has a lane, a command queue of the driver, to itself, and
// blocks in it. So copies overlap launches, without events of the driver.
//
// Compiled programs are kept by the process and in the user's cache (executables.go).
//
// A driver may put handlers of its own in the place of Go's for signals. They are
// put back at once (signals_linux.go).
//
// The files use each other downwards: cl; choose; program, times, failure; library,
// kernels, tables; executables; compile; memory, hostmemory; context; platform,
// numerics; calls, errors; load.
package cl
