// Package partition cuts a training graph into stages for devices: a plan with
// every value's place, every transfer and the memory of every device, before
// anything is allocated. It is a pure function: the same graph, specs and
// options give the same plan.
//
// A stage is a run of blocks (top-level layers). What a stage computes is cut
// into segments, the unit that a device compiles and the executor leases: one
// Forward and one Backward segment, run once per microbatch, and Update
// segments, run once per step, in levels: a segment of level n reads only what
// lower levels of any stage have made. In a step of one microbatch, phases are
// merged: see merge.go.
//
// The work is done in nine passes, one file or function each: 0 recompute,
// 1 blocks, 2 costs, 3 cut, 4 place, 5 segments, 6 slots, 7 frees, 8 memory.
//
// The types to know are [Plan], [Stage], [Segment], [Variant] and [Slot].
package partition
