// Package rundir is the folder of a run: config.yaml, metrics.jsonl,
// checkpoints.db and report.json. It opens a folder to begin or resume a run,
// finds the checkpoint that is meant, tells how far a run came, and writes
// files so that they are whole or as they were.
//
//	st, err := rundir.StatusOf("runs/digits")
//	…
//	if st.State == rundir.Unfinished {
//		fmt.Printf("step %d of %d\n", st.Step, st.Total)
//	}
//
// The types to know are [Folder], which a training run holds open, [Status],
// and [Metrics]; [Pick] and [Find] find a checkpoint.
//
// Begin with folder.go: opening a folder, starting a run in it, closing it. files.go says which files
// are a run's, and removes them. metrics.go and events.go write the lines and events, by way of
// appended.go, which bears a full disk; metrics_read.go reads lines back, also to cut them to where a
// run resumes. pick.go finds a checkpoint, summary.go tells how far a run came, and output.go writes
// files whole.
//
// # Why does a finished run not stand in the way of the next?
//
// The first command should work twice. A finished run is a result, so the next one takes the next free
// folder and names both. An unfinished run is work in progress: going on, beginning anew or leaving it are
// different wishes, so the command asks.
//
// # How is a run that failed told from one that stopped?
//
// By its folder alone. Each call ends with `report.json`, unless it fails; so a report with the steps of
// the newest checkpoint is of a call that stopped. Where a sweep has deleted the checkpoints, its steps are
// compared with those of the newest boundary. A process that is killed leaves the file with its
// number, which a closed one removes. The lock on the checkpoints, and not that number, says that a run
// trains: a number may be another process's by now.
package rundir
