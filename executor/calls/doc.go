// Package calls cuts a segment's graph into calls: graphs of one op each, to be
// compiled and launched one by one. It only decides; it neither computes nor
// allocates.
//
// The order of the calls, and the values that share memory, are those of the
// device's own plan without fusion. So a run op by op gives the same bits as the
// compiled segment. A reshape is no call: it belongs to the call that reads it.
//
// The types to know are [Call] and [Memory].
//
// # Why does op by op cut tasks, and not the device's program?
//
// An executable that checks every value runs its ops one after the other already, but as one launch: one
// event, one arena, one entry in the trace. Op by op, the executor makes a task of each op instead
// (`executor/calls`). A task is the unit that is leased, launched, named in errors and timed, so residency
// sees each value between two ops as a tensor: it is counted, evicted and spilled, and its last use is
// known. Nothing else differs from a compiled run: streams, memory, kernels and the order of ops are the
// same, and so are the bits. The order comes from the device's own plan without fusion
// (`planner.Options.Alone`), which knows when a variable may be overwritten. A compiled segment that fails
// leaves its variables as they were. Op by op, updates come behind all ops of their segment that do not
// depend on them (`planner`'s order under `CheckFinite`), so a loss or gradient that is not finite is found
// while every variable is that of the step before. An update that is itself not finite was written; the run
// then goes on from its newest checkpoint.
//
// The log of calls has a goroutine of its own. A stream that printed would stand still with whoever reads,
// and count as hanging.
package calls
