// Package step is pass 6 of a plan: it takes a [Program], the segments and their devices, and
// gives the [Launch]es of a step in the order in which they are queued.
//
// The schedule gives the order of passes (launches.go). Sums over microbatches are made in
// their order, or by a tree with launches that add partial sums (sums.go). Each launch says
// which tensors it uses, and which of them nobody uses later. An [Exchange] says what ranks, the
// processes of one run, send each other in a step (ranks.go), and each rank lists what it does itself (part.go).
//
// # Why does the plan list the launches of a step?
//
// The order in which a step is queued decides which tensors are on a device together. `partition` needs
// that order to foretell memory, and `executor` needs it to run. Both take it from `Plan.Launches`, so they
// cannot disagree. This is why `partition` imports `executor/schedule`, which is data and imports nothing.
//
// # Why are the launches of alike microbatches and replicas listed one by one?
//
// They are not as alike as they look: sums make a tree, the first launch of a device finds other tensors than
// the next, and under a limit each launch has its own victims. The forecast replays exactly what the run will
// do, so it needs them all. So a step has at most 4,096 microbatches (package schedule): the plan of a small
// GPT then takes seconds, or 15 s of CPU in limited memory, where 65,536 took minutes and gigabytes.
// Nothing is kept for pairs of replicas: an instance knows the few devices that use it.
//
// # Why does a rank take part in a message only before the launch that reads it?
//
// Sender and receiver queue a message at the same place in the step's order, before the launch that reads the
// tensor. So whatever either waits for came earlier in that order, and no ranks wait in a circle, however much
// memory they have. A receiver that queued it later than its sender could: it may need the memory of a tensor that is
// still being sent, to a rank that waits for another one. The order costs no time, as steps are queued long before they
// run: the sender posts a message as soon as the tensor is written. And a rank's memory is what one process has on
// the same devices, where a copy between devices comes with the launch that reads it, too.
//
// # Why do several ranks join the same ranges?
//
// Replicas that share an update have each a range of the new parameter. In one process a replica joins them, and the
// others copy the whole. Between ranks it would be sent R-1 times by one rank, while the others wait. So what joins ranges
// is launched on each rank, which is sent the ranges that it lacks: each rank sends its own to all others. Such launches
// compute nothing, so their results are alike.
package step
