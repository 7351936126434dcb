// Package balance decides how many microbatches of a step each replica takes, and when the stages of a pipeline are to have
// other blocks, by measured speed.
//
// A [Balancer] is told how long the replicas worked on the passes of each step, and proposes other shares
// once these would end sooner. A [Clock] takes the times from the streams of devices. [Stages] is told how long the
// devices of a pipeline worked, and says when that is not what their plan counted with. None of them knows plans
// or programs: package executor owns them for a program, and makes its steps anew with other shares; package train asks for other
// plans.
//
// # The rule
//
// A replica's time for a microbatch is the time that its passes work, divided by its microbatches. Their waits do not
// count: a fast replica waits for the sums of a slow one, and would look as slow. It is the lower quartile of the newest nine
// samples. A sample is the fastest of as many steps as work for a tenth of a second, or of a hundred that take less, or one that
// takes longer. The best shares follow: each replica has one microbatch, and each further one goes to the replica that
// would have ended it first. They are proposed once the share of time that they save, times the samples taken, reaches [evidence]:
// 30% after three samples, or 10% after nine. What they save within a thousand steps must also make up for the time that the newest
// change took.
//
// After a change, all is measured anew. After each further change, the next one must wait for more samples, up to [mostRest]:
// where speeds change all the time, shares do not follow each change.
//
// # Why the fastest?
//
// Where others compute, the system stops threads for some hundredths of a second. Launches that take less often look a hundred
// times as slow for it, now on one device, now on another one, and means and medians of them have shares flap. The fastest
// launch was not stopped. A slow device is slow in each launch, and so in its fastest, too. One that stalls in some launches alone keeps
// its share.
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
