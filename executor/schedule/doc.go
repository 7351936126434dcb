// Package schedule is pipeline schedules as data: which stage does what for
// which microbatch, in which order. A schedule prints as a grid and parses
// back, is checked for deadlocks before anything runs, and can be simulated
// with any cost to see its bubble.
//
// The rules every schedule keeps ([Schedule.Validate] checks them):
//
//	sFm after (s-1)Fm
//	sBm after sFm and (s+1)Bm
//	sU  after every sB (after every sF where there is no backward pass)
//
// and each stage takes its F and its B in microbatch order. The last rule is
// what makes sums over microbatches, and so the trained weights, equal bit for
// bit whatever the schedule.
//
// The types to know are [Action], [Schedule] and [Timeline].
package schedule
