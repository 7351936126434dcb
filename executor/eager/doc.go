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
package eager
