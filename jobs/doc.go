// Package jobs trains many configs on one set of devices. A [Daemon] owns the devices and
// a queue of jobs; which of them run is decided in jobs/order, and what is kept of them
// on the disk is in jobs/queue.
//
//	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:2"}})
//	…
//	go d.Run(ctx)
//	job, err := d.Submit(ctx, jobs.Submission{Key: key, Config: yaml, Dir: dir})
//
// Begin with daemon.go: the one goroutine that decides. decide.go says who runs, hostroom.go who
// gives way where host memory is short, and sweeps.go which trials of a sweep begin and end, as
// jobs/sweep decides. task.go trains one job, and pace.go measures it. submit.go takes new jobs,
// view.go answers what is asked about them, and local.go does both where no daemon runs. log.go is
// the text that a job leaves in its run folder.
//
// # Who may do what?
//
// The goroutine of [Daemon.Run] alone decides which jobs begin, stand still and go on. A task is a
// goroutine for each job that is open; it tells of its progress under the daemon's lock and wakes
// that goroutine.
// Requests change the queue, and wake it, too.
//
// # Why do two trials of a sweep not compute on one device?
//
// One could compute while the other saves or evaluates. A save runs beside its training already, and without a daemon
// each trial has cores of its own. So little is left: 16 trials of digits on two cores, with four trials at once in
// place of two, took 1.10, 0.99, 0.95, 0.94 and 0.84 of the time in five pairs, for twice the memory. Whoever wants
// that has it by more devices than cores: `trainer up --devices cpu:4`, or `--set devices.threads=4` without a daemon.
package jobs
