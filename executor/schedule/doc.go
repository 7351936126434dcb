// Package schedule describes pipeline schedules as data: the actions of each
// worker on stages and microbatches, in order. A worker is a device, and can have
// several stages. A schedule prints as a grid and parses back, is checked for
// deadlocks before anything runs, and can be simulated with any costs to see its
// bubble.
//
// Every schedule keeps these rules, which [Schedule.Validate] checks:
//
//	sFm after (s-1)Fm
//	sBm after sFm and (s+1)Bm
//	sWm after sBm
//	sRm after the two sums that it adds; see SumOf
//	sU  after the stage's F, B, W and R
//
// and each replica of a stage takes its F, its B and its W in microbatch order. By
// the last rule, sums over microbatches, and so the trained weights, are equal bit
// for bit in every schedule. Without W, the backward pass includes it. Without R,
// sums need no action of their own.
//
// The types to know are [Action], [Schedule], [Spec], [Costs] and [Timeline].
package schedule
