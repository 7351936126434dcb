package berth

import (
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
)

// Weights says which weights to use: a run folder's checkpoint, or a file.
type Weights struct {
	Dir  string // run folder
	Best bool   // its best checkpoint by the watched metric, not its newest
	ID   uint64 // the checkpoint with this ID; 0: the newest, or the best
	Init string // FILE.safetensors[:PREFIX] in place of a checkpoint

	Model models.Layer // of a config with `model: {preset: given}`, for OpenTrained
}

// Used says which weights a result is of.
type Used = checkpoint.Used

// usedOf words a checkpoint that was found for w.
func usedOf(w Weights, f *rundir.Found) Used {
	if w.Init != "" {
		return Used{File: w.Init, Skipped: f.Skipped}
	}
	m := &f.Snapshot.Manifest
	return Used{ID: m.ID, Step: m.Step, Best: f.BestID == m.ID, BestID: f.BestID, Skipped: f.Skipped}
}

// contentsOf is where variables get their first contents.
func contentsOf(v *initial.Values) executor.Contents {
	c := executor.Contents{Write: v.Read}
	if s := v.Stream(); s != nil {
		c.Sequence = s
	}
	return c
}

// inputsOf are the files and folders that a config, its data and its weights are read from, so
// that nothing is written over them.
func inputsOf(c *configs.Config, w Weights) []string {
	inputs := []string{c.Pos.File}
	if d := c.Data; d.Source == "tensors" {
		inputs = append(inputs, filepath.Join(d.Path, d.Input), filepath.Join(d.Path, d.Target))
	} else {
		inputs = append(append(inputs, d.Path), d.MorePaths...)
	}
	if w.Init != "" {
		file, _ := initial.SplitPath(w.Init)
		inputs = append(inputs, file)
	}
	return inputs
}
