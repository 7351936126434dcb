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
// The types to know are [Runtime], [Program], [Batch] and [Ticket].
package executor
