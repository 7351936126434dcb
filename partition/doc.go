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
//
// # Why do the first and the later microbatches run different segments?
//
// The first microbatch writes each gradient's sum; the later ones add to it in place. Starting from zeros
// instead would first write the zeros, and then read and write each gradient once more.
//
// # Why is Update cut into levels?
//
// Clipping needs the norm of all gradients before the first update. A node of the update that reads another
// stage's result is one level above that result. Each level of a stage is a segment of its own, so the
// segments can be ordered without cycles. An assignment counts as coming after every other reader of its
// variable, on whatever stage.
//
// # Why are phases merged for a single microbatch?
//
// A value that two segments share must be a buffer outside both. A value inside one segment is a temporary
// of its arena and shares memory with others. With one microbatch no gradient waits for further ones: each
// update runs right behind its gradient, whose memory is then free, and the last stage goes from forward to
// backward at once. On one stage the whole step is one segment, `FBU` in the plan. A node of the update
// that waits for a lower stage stays outside; behind a gradient norm over several stages, that is every
// one. With several microbatches all sums live to the step's end anyway, so phases stay apart.
//
// # How is W cut from the backward phase?
//
// Another stage waits for the gradients of its outputs; the gradients of weights can wait for the update.
// Where the schedule has W (`zb-h1`), a plan goes through a stage's backward nodes from last to first. A
// node whose result the backward phase of another stage reads is B, and so is all that leads to it; the
// rest is W. So the graph needs no further phase, and every op is cut alike: tied weights, skip
// connections, attention. The first stage has no B, since no stage waits for it. A node that both need runs
// in B, a recomputed one too, and its results are kept until W, with the activations that W reads: the
// forecast counts them. Each sum has one part, in B or in W, and both go in microbatch order, so the bits
// are those of every other schedule. Phases are not merged then, with one microbatch either: B ends sooner
// alone.
//
// # Why are segments cut finer only where memory is short?
//
// A launch needs all its tensors at once, so a smaller launch gets by with less. Cut at blocks, a step of a
// GPT needs two weights and a few activations where the whole phase needs them all; what a later launch
// needs can be elsewhere meanwhile. But values inside a segment share memory and are fused, and values
// between segments are not. So the cut is the coarsest one that helps, and without a limit there is none.
//
// A finer cut takes the nodes of a phase in their order and cuts that list. Any such cut runs the same
// nodes in the same order, so it cannot change a bit or add a dependency. The forecast of each cut replays
// the launches in the order in which they will be queued, with the choice of victims that the run will
// make. So the plan's peak, and the bytes that it says will move, are those of the run.
//
// # Why does a range of an update have its state alone?
//
// The update of a weight needs the weight, its gradient and the optimizer's state at once: four equal
// tensors under Adam. For GPT-2's embedding that was the floor of the whole plan. Elementwise updates can
// go range by range, but the weight and its gradient are read and written whole by products, so their bytes
// lie side by side. The state is used by the update alone. So the state becomes a variable per range, and
// each range's launch needs the weight, the gradient and its own state. The weight changes in place from
// range to range. With that, the largest launch is the product that adds to the gradient: no cut of the
// update would lower the floor further.
//
// The cut is a rewrite of the graph at plan time. `ops.Ranged` wraps an update, and its kernel is that of
// the whole update on narrowed memory. Nothing below the plan knows of ranges: residency has tensors,
// devices have nodes. A range that a replica owns alone would be the same node. Above the plan, a variable
// is whole: a checkpoint has the same tensors, bytes and order with and without ranges. Ranges begin at
// multiples of the elements that a sum adds up at a time (`ops.SumElems`), so a norm could be summed by
// ranges too, with the same bits.
//
// Ranges are launches, and each has a cost. So there are none without a limit, updates far smaller than
// memory stay whole, an update has at most 64 ranges, and their size follows from the limit. The smallest
// size decides the floor: it is tried wherever a larger one does not fit.
//
// A tied weight's gradient is the sum of two. Where updates are in ranges, it takes the place of the first
// instead of a third tensor.
//
// # Why does a value between kinds take two copies, and not one?
//
// A driver copies fastest from memory that it has registered. If that were the other device's own memory,
// each kind would have to know the other's. So host memory of the device that cannot address the host lies
// between. One block serves a value in each step.
//
// # Why may a number of the update be on another device than its readers?
//
// An op without a kernel on one kind would take its whole block elsewhere. The learning rate, the step's
// count and the norm of the gradients have few bytes, and the update is cut into levels that wait for each
// other already. Gradients and weights stay.
//
// # Why is the memory of a stage bounded before it is measured?
//
// Under a limit, the dynamic program asks about every range of blocks, and measuring one takes time by its
// nodes. Most of a stage's memory is the sum of its blocks' own: variables, results that backward needs,
// sums. The rest crosses the two ends of the range, or is scratch, and both have bounds. The two bounds of
// a range are a percent apart, so a few ranges near the limit are measured and the others are not. Where
// stages share a device, the upper bound alone decides, since exact sums would be needed of all pairs of
// ranges.
//
// # Why does the plan list the launches of a step?
//
// The order in which a step is queued decides which tensors are on a device together. `partition` needs
// that order to foretell memory, and `executor` needs it to run. Both take it from `Plan.Launches`, so they
// cannot disagree. This is why `partition` imports `executor/schedule`, which is data and imports nothing.
package partition
