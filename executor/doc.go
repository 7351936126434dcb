// Package executor runs plans. A [Runtime] is opened once per training: it owns a
// compute stream on each device, and the training's tensors. A [Program] is a plan
// that was compiled for it; many programs (training, evaluation) share a runtime
// and, by name, their weights. [Devices] are shared by the runtimes of several
// trainings: what fails in one fails no other one.
//
// One goroutine walks the tasks of a step in the schedule's global order. For
// each it acquires every tensor from residency, launches the segment and
// releases. None of this waits for a device, so the host runs ahead while
// streams keep the order. [Program.Wait] tells when a step is over, or that it
// failed.
//
// A step is queued whole or not at all: a step that cannot be queued is undone,
// and may be tried again. When a task or a copy fails on its device, everything
// after it is skipped. From then on the runtime answers with the [TaskError] of
// the first task that met the failure. A step allocates nothing if one of its
// size came before.
//
// Files use each other downwards only. On top are load.go (before training) and
// step.go (during it), which lets switchover.go put executables in the place of ops.
// Below are a program's tables (expand.go, opbyop.go, tensors.go), failures, the
// runtime, what it knows of programs (loaded.go, beside.go), what compiles
// (compile.go), and the steps under way (flight.go). devices.go makes runtimes.
//
// The types to know are [Devices], [Runtime], [Program], [Batch] and [Ticket].
package executor
