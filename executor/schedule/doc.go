// Package schedule describes pipeline schedules as data: the actions of each
// stage on each microbatch, in order. A schedule prints as a grid and parses
// back, is checked for deadlocks before anything runs, and can be simulated
// with any cost to see its bubble.
//
// Every schedule keeps these rules, which [Schedule.Validate] checks:
//
//	sFm after (s-1)Fm
//	sBm after sFm and (s+1)Bm
//	sU  after every sB (after every sF where there is no backward pass)
//
// and each stage takes its F and its B in microbatch order. By the last rule, sums
// over microbatches, and so the trained weights, are equal bit for bit in every
// schedule.
//
// The types to know are [Action], [Schedule] and [Timeline].
package schedule
