// Package trace measures and shows what a run does: a [Clock] times its steps,
// [Spans] collect when each operation ran, a [Debug] prints what BERTH_DEBUG
// asks for, and a [Dump] keeps plan, transfers and operations in a folder.
//
//	var c trace.Clock
//	c.Begin(devices, rt.Busy())
//	… a step …
//	c.Tick(samples, rt.Worked())
//	fmt.Println(c.Throughput(), "samples/s")
//
// Files are written by a function of the caller.
package trace
