// Package balance decides how many microbatches of a step each replica takes, by measured speed.
//
// A [Balancer] is told how long the replicas worked on the passes of each step, and proposes other shares
// once these would end sooner. A [Clock] takes the times from the streams of devices. Neither knows plans
// or programs: package executor owns both for a program, and makes its steps anew with other shares.
//
// # The rule
//
// A replica begins the passes of a step some time after the first replica does, since it waits for new
// weights, for example. Its time for a microbatch is the time that its passes work, divided by its microbatches. Their waits do
// not count: a fast replica waits for the sums of a slow one, and would look as slow.
// Both are medians over the newest nine samples. A sample is the mean of as many steps as take a tenth of a second, or of
// one that takes longer. The best shares follow: each replica has one microbatch, and each further one goes to the replica
// that would have ended it first. They are proposed once the share of time that they save, times the samples taken, reaches
// [evidence]: 30% after three samples, or 10% after nine. What they save within a hundred steps must also make up for the time
// that the newest change took.
//
// After a change, all is measured anew. After each further change, the next one must wait for more samples, up to [mostRest]:
// on a machine on which others compute now and then, shares do not follow each disturbance.
//
// # Why do shares change between steps, and not within one?
//
// The launches of a step are listed before it, and its memory follows from the list. A replica that took
// microbatches within a step as it became free would need a list for every order, or none, and memory that
// nobody foresaw. Between steps, other shares are another list, whose memory is forecast before it is used.
//
// # Why does every replica keep a microbatch?
//
// It is the measurement: a device that has recovered shows it in the next steps, and gets its share again.
// A step then takes at least one microbatch's time of the slowest replica.
package balance
