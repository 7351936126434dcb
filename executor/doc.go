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
// With [Ranks], several processes share a plan: each walks its own tasks, and those that
// send and receive what one writes and another reads (ranks.go).
//
// A step is queued whole or not at all: a step that cannot be queued is undone,
// and may be tried again. When a task or a copy fails on its device, everything
// after it is skipped. From then on the runtime answers with the [TaskError] of
// the first task that met the failure. A step allocates nothing if one of its
// size came before.
//
// Begin with program.go, from loading to closing, and step.go, from queueing a step to its end.
// expand.go and opbyop.go make the tables that a step walks. compile.go compiles, before the
// steps or while they run. init.go gives variables their first contents. failure.go has what comes
// after a failure, errors.go how it is told. devices.go makes runtimes. ranks.go has the messages
// between ranks.
//
// The types to know are [Devices], [Runtime], [Program], [Batch], [Ticket] and [Ranks].
//
// # Why do segments that are compiled while steps run switch over between steps?
//
// `--compile beside` runs steps op by op while a goroutine compiles the segments. A step is a list of tasks
// that residency knows in advance; a change within a step would need a second order of uses, and both
// forms' memory at once. So `executor/compile.go` lets the steps under way end, and makes the lists anew
// with the executables that are ready: a pause of one step for each switch. The goroutine begins with the
// first step, when everything else is loaded, since a device compiles one segment at a time.
//
// Waiting stays the default on every kind. Started for the first time on PoCL, the digits take 3.9 s of
// processor time to the end of the first step with `wait` and 5.6 s with `beside`, shakespeare 6.6 s and 10
// s: op by op there are more kernels than clusters. It is worth its time where the ops' kernels are on the
// disk and the clusters' are not, and where a compiler refuses a cluster.
//
// # Why does a device whose operation failed count as lost?
//
// Copies are repeated: their source is still there. A launch has overwritten some of its inputs, and the
// rest of its stream is skipped. Replanning without it ends: each loss leaves fewer devices. If the device
// were tried again, a failure that repeats would go on forever.
//
// # Why does a message between ranks wait on a stream of its own?
//
// Residency says what a lease must wait for by having a stream wait for it, and frees memory once an event says
// that it was used. So the lease of a message is taken for a stream that runs nothing. When that has come so far, a
// goroutine of the line to the other rank posts the message ([ranks.Line]), and the message's end is an event of the line.
// To the compute stream it is an event like any other. If residency knew of ranks, tensors would have a truth that another
// process moves; and if the compute stream posted messages, launches behind one would wait for the other rank.
//
// A rank that fails ends its messages. Its own streams then end, too: they would wait for what other ranks cannot send
// any more. Whoever runs the rank tells the others ([ranks.Transport.Abort]).
package executor
