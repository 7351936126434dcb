// Package partition cuts a training graph into stages for devices: a plan with
// the placement of every value, every transfer and the memory of every device,
// before anything is allocated. It is a pure function: the same graph, specs
// and options give the same plan.
//
// A stage is a sequence of blocks (top-level layers). Its nodes are cut into
// segments, the unit that a device compiles and the executor leases. One Forward
// and one Backward segment are launched once per microbatch; where the schedule has
// W, the backward phase is cut into B and W: see weightgrads.go. Update segments
// are launched once per step, in levels: a segment of level n reads only the
// results of lower levels, of any stage. In a step of one microbatch, phases are
// merged: see merge.go. Where memory is short, all these are cut into finer
// segments: see grain.go. The updates of large variables are then cut into ranges,
// and the optimizer's variables with them: see ranges.go.
//
// From the segments and the order of its schedule, a plan lists the launches of a
// step. Sums over its microbatches are made in their order, or by a tree with launches
// that add partial sums: see sums.go. From these it forecasts the memory of each device.
//
// The work is done in ten passes, one file or function each: 0 recompute,
// 1 blocks, 2 costs, 3 cut (auto.go, stagesearch.go, byhand.go), 4 place, 5 segments, 6 slots,
// 7 launches and what they free, 8 forecast (predict.go), 9 stages. Files use each other downwards only:
// new.go runs the passes, and choose.go passes 5 to 8 for each grain, without and
// with ranges; they write the Plan of plan.go; below are placement.go, index.go (questions to a graph) and
// blocks.go. For pass 3, costs.go measures neighbouring blocks as one stage, and bounds.go
// spares it most of them.
//
// Beside them stand predictions of a plan's step (prediction.go), also for the plans of the
// fastest cuts, and above them plans for each number
// of stages and replicas (candidates.go), and a plan of the smallest parts, to time
// them (atoms.go). The search for a cut is package search, the file of measured times
// package costs, and the picture of a plan package picture.
//
// The types to know are [Plan], [Stage], [Segment], [Launch] and [Forecast].
package partition
