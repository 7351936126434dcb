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
//
// # Why does a schedule have a row for each device, and not for each stage?
//
// A device runs one action at a time. Rows of stages that share one would be simulated as if they ran
// at the same time, and their order on the device would be left to chance. So a row is a worker's, and a
// map says where each stage is. Neighbouring stages on one worker run as one: 1f1b then keeps the
// activations of one microbatch on one device, however many stages there are.
//
// The named schedules, but for `interleaved`, are what a rule gives in unit times: a worker that is free
// takes the weights' gradients that are due, else a forward pass if not too many microbatches are in
// flight, else a backward pass. That is the papers' order where each worker has one stage, which tests
// compare, and it deadlocks on no map of stages to workers: the oldest unfinished microbatch can always go
// on. In the interleaved order a greedy choice is not the best one, so its sequence is built as in the
// paper, for as many microbatches as fill the last turn; those that a step lacks are left out, and so is
// the end of a schedule from a file in an epoch's smaller last batch. Leaving out whole microbatches cannot
// make a deadlock.
//
// The text of a schedule from a file takes the place of its path when the config is loaded. Run folder and
// checkpoints hold configs, so they hold the schedule, and nothing else had to learn of files.
package schedule
