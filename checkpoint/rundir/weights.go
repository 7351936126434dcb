package rundir

import "github.com/berth-ml/berth/checkpoint"

// Weights says which weights to use: a run folder's checkpoint, or a file. With Dir
// alone, they are those of the best checkpoint by checkpoint.best's metric, or of the
// newest where none has it, as without validation data or after an import.
type Weights struct {
	Dir  string // run folder
	Last bool   // its newest checkpoint, not its best
	Best bool   // its best checkpoint; it is an error if none has the metric
	ID   uint64 // the checkpoint with this ID
	Init string // FILE.safetensors[:PREFIX] in place of a checkpoint
}

// Used words a checkpoint that was found.
func (w Weights) Used(f *Found) checkpoint.Used {
	if w.Init != "" {
		return checkpoint.Used{File: w.Init, Skipped: f.Skipped}
	}
	u := UsedOf(&f.Snapshot.Manifest, f.all)
	u.Skipped = f.Skipped
	return u
}

// UsedOf words a checkpoint that is one of all, as [checkpoint.DB.List] gives them.
func UsedOf(m *checkpoint.Manifest, all []checkpoint.Manifest) checkpoint.Used {
	u := checkpoint.Used{ID: m.ID, Step: m.Step, Saved: m.Time, BestID: checkpoint.BestOf(all)}
	u.Best = u.BestID == m.ID
	if len(all) > 0 {
		u.NewestID = all[len(all)-1].ID
	}
	return u
}
