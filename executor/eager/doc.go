// Package eager runs ops one at a time, on the same devices and kernels as plans and with the
// same bits: an op is compiled as a graph of one node, once per input metadata.
//
// [Context.Execute] returns at once with handles. A handle's metadata is known at once and its
// contents follow, so a mistake of shape is reported at the call, with the caller's file and
// line, and a failure of the data (an id outside a table) by the handles of the op that met it
// and of all that depend on it. Everything else goes on.
//
// Arguments are consumed: pass x.Ref() to use x again. An op that consumes the last reference may
// compute in its memory. A handle that is not consumed must be released.
//
// A context is a tenant of a residency manager: its own, or one that it shares with runs. So
// tensors for which a device has no room go to the host, come back when an op needs them, and
// count in the ledger.
//
// Each device has a lane, which takes calls in order. While the lane has nothing to do, a short
// op runs on its caller's goroutine, and has ended when the call returns. Any other op is queued.
// The lane's goroutine waits for its arguments, leases them and launches the op on the device's
// stream. A stream skips everything behind a failure. So an op is launched behind unfinished work
// only if none of that can fail by its data (an id outside a table), or if the op depends on all
// that can; otherwise the lane lets that work end first, and a failed stream is replaced before
// anything else runs. A failure of the device itself fails all that is in its stream.
//
// Nothing is converted or moved that was not asked for: [Context.FromHost], [Tensor.ToHost] and
// [Tensor.CopyTo] are the copies. They wait for their own tensor alone, and have streams of their
// own. A [Tape] records calls and computes gradients from them, by the same rules as graphs;
// those of calls that come again are compiled. [Compile] makes one op of many.
//
// The types to know are [Context], [Tensor], [Tape], [Function] and [Handler].
//
// # Why does a tape compile gradients that come again?
//
// A training loop records the same calls in each step. To differentiate them anew took longer than to run
// them: the graph of a step is built, its gradients appended, what nobody reads removed. So a tape records
// only which op read which values. The plan of its gradients is kept by that trace, with the metadata of
// its inputs, and found again by a hash and a comparison. A plan that is asked for a second time is worth
// compiling; compiled ops give the bits of single ones, so nobody can tell but by the time. The first time
// is op by op: a trace that never comes again costs no compilation.
//
// # Why do short ops run where they are called?
//
// A call of `executor/eager` on 16 floats computes for some 20 ns. Handed from the program to a lane, and
// from there to the device's stream, it took 1.7 µs of two cores' time, most of it to wake goroutines. So a
// lane that has nothing to do runs an op of at most about 10 µs at once (`device.Runner`), on the goroutine
// of the caller. A longer one is queued: the caller goes on meanwhile. A caller that is ahead by short ops
// alone waits for them, since it would stay ahead and pay for the queue each time.
//
// Both ways lease the same tensors of the same residency manager. `Acquire` can copy, evict and wait, and
// costs for that; `AcquireNow` leases tensors that are there and free, or says no, and then `Acquire` is
// asked. Rather than a second manager, of small tensors, whose memory nobody else could
// have, a tensor that is over keeps its record and, up to 64 KiB, its device memory, for the next tensor of
// the same metadata. Residency knows that nobody needs its contents (`Discard`): where memory is short,
// they go first, and nothing is copied. So a loop asks neither the device nor Go for memory.
//
// Handles are values, a record and the number of its use, since records are used again: a handle that was
// consumed is found out by the number. A handle that points to memory of its own would be an allocation for
// each call.
//
// The kernel of a call is found by the op's value and the pools of its arguments, without printing the op.
// First the entry is tried that came after the last one the last time: programs repeat themselves. 0 and -0
// are equal and two ops, so the signs of floats belong to the key.
//
// # Why does Close name the lines of held tensors only when asked?
//
// To find the line of a call takes about 0.4 µs, nearly as long as a short op. An op that fails has its
// line, since there it is found after the failure. A tensor that is never released shows itself at `Close`
// alone, so each one would have to record its line. Programs that look for such a tensor set
// `ContextOptions.Places`; `Close` says so when it counts held tensors.
//
// # Why may a function return its arguments, and a composite not?
//
// A program cannot always tell: `ops.ScaleBy` by 1 is its argument, and so is a loop of no iterations. A
// function that would be refused for one value of a number is no help, so `berth.Compile` appends a copy. A
// composite stands in a graph whose gradient may be its own, and a gradient by its output would then be one
// by its input.
package eager
