package rundir

import "github.com/berth-ml/berth/checkpoint"

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights struct {
	Dir  string // run folder
	Best bool   // its best checkpoint by the watched metric, not its newest
	ID   uint64 // the checkpoint with this ID; 0: the newest, or the best
	Init string // FILE.safetensors[:PREFIX] in place of a checkpoint
}

// Used words a checkpoint that was found.
func (w Weights) Used(f *Found) checkpoint.Used {
	if w.Init != "" {
		return checkpoint.Used{File: w.Init, Skipped: f.Skipped}
	}
	m := &f.Snapshot.Manifest
	return checkpoint.Used{ID: m.ID, Step: m.Step, Best: f.BestID == m.ID, BestID: f.BestID, Skipped: f.Skipped}
}
