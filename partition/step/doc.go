// Package step is pass 6 of a plan: it takes a [Program], the segments and their devices, and
// gives the [Launch]es of a step in the order in which they are queued.
//
// The schedule gives the order of passes (launches.go). Sums over microbatches are made in
// their order, or by a tree with launches that add partial sums (sums.go). Each launch says
// which tensors it uses, and which of them nobody uses later.
//
// # Why does the plan list the launches of a step?
//
// The order in which a step is queued decides which tensors are on a device together. `partition` needs
// that order to foretell memory, and `executor` needs it to run. Both take it from `Plan.Launches`, so they
// cannot disagree. This is why `partition` imports `executor/schedule`, which is data and imports nothing.
package step
