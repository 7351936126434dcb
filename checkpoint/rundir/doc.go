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
// and [Metrics]; [Pick] and [View] find a checkpoint.
package rundir
