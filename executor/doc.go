// Package executor runs plans. A [Runtime] owns what is opened once: devices,
// their compute streams and the residency manager. A [Program] is a plan that
// was compiled for it; many programs (training, evaluation) share a runtime
// and, by name, their weights.
//
// One goroutine walks the tasks of a step in the schedule's global order. For
// each it acquires every tensor from residency, launches the segment and
// releases: nothing of that waits for a device, so the host runs ahead while
// streams keep the order. A step is known to be over, or to have failed, by
// [Program.Wait].
//
// A step is queued whole or not at all: what cannot be is undone, and may be
// tried again. When a task fails on its device, everything after it is skipped,
// and the runtime answers with that task's [TaskError] from then on. A step after
// one of its size allocates nothing.
//
// The types to know are [Runtime], [Program], [Batch] and [Ticket].
package executor
