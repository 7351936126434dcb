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
//
// # Why is a device's memory one object of the driver?
//
// Budgets have to be exact, and drivers do not say what they have left: PoCL hands out more than the
// machine has. One object, taken when the device opens, is refused or is ours. Our allocator shares it out,
// moves tensors in it and packs it, as on the host. Kernels get offsets, so a tensor that moves needs no
// new arguments but numbers. An object for each tensor would need a driver's call for each of them,
// alignment of sub-buffers (128 bytes on PoCL), and no tensor could move. The price: no device gives more
// than its driver's largest object, which is often a quarter of its memory; pass a limit to `opencl:2` with
// `--share-device` to use more of it.
//
// # Why does PoCL keep its compiled kernels itself?
//
// PoCL compiles a kernel at its first launch, for that launch, and keeps the result. Asking it for a binary
// compiles each kernel once more, and nearly doubles the time of a first start. So it is not asked.
// Instead, loading a program launches each new kernel once with a status word that is set, so that nothing
// is written: the wait then falls where it is shown and where a signal ends it, and no step of a training
// takes half a minute.
//
// # Why do OpenCL copies and launches block a thread?
//
// A driver's callbacks take 75 µs on PoCL, and waiting for its events takes a thread, too. The goroutine of
// a stream queues a whole launch, or a copy, in a command queue that is its own meanwhile, and waits once.
// Order, failures and the end of a hung device are then the same code as for `cpu`.
//
// # Why not PJRT?
//
// Its plug-ins compile for TPUs and GPUs, and could be driven without cgo. But they own memory, so budgets,
// moves and spilling would not be ours, nor would the order of sums. And no plug-in for the CPU can be had
// from a package registry, so CI could run nothing of it. It is a way to TPUs, should they be wanted.
package cl
