// Package queue keeps jobs in one bbolt file, so that none is lost: [Open] has every
// job that [Queue.Submit] has answered for, whenever the process before was killed.
//
//	q, err := queue.Open(path)
//	…
//	job, err := q.Submit(queue.Submission{Key: key, Name: "digits", Config: yaml, Dir: dir})
//
// A [Job] is a config, a run folder and a wish. Its wish is what somebody asked for: to
// run, to pause, to be cancelled. Its state is what has come of that. Progress is no
// part of it: that belongs to the run folder.
//
// Begin with job.go: the record and its states. queue.go has the requests, which are refused
// if they cannot be written, and the reports, which are taken at once and written as soon
// as there is room. sweep.go has sweeps, whose trials are jobs. file.go is the file. recover.go says what becomes of jobs that ran
// when the process ended.
//
// # Why are there two kinds of writing?
//
// A request may be refused: who asked is there, and can ask again. So [Queue.Submit], [Queue.Want] and [Queue.Begin]
// change nothing before the disk has it. What has happened cannot be refused. So [Queue.Stood]
// and [Queue.End] change the job at once, and a full disk makes the file late: [Queue.Full] says
// so, and [Queue.Flush] tries again. A process that is killed meanwhile finds the job running; it opens the
// run folder again, where the work is done already.
//
// # Which job was to blame?
//
// Jobs run in one process. Where a fault of one ends it, the file says which jobs ran, and not
// whose fault it was. These jobs are [Job.Suspect] then: each is to run alone until it has
// saved. If the process ends once more while one runs alone, that one has failed. A job that is planned since its inputs have
// finished counts as one that runs: [Queue.Plan] is on the disk before. A machine that was
// started anew since then blames nobody.
package queue
