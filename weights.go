package berth

import (
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
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

// filesOf are the files that paths of data stand for, with a config's source.
func filesOf(c *configs.Config, paths []string) []string {
	if c.Data.Source == "text" || c.Data.Source == "lines" {
		return datasets.TextFiles(paths, c.Data.Field)
	}
	return paths
}

// readsOf are the files that a config's data and weights are read from.
func readsOf(c *configs.Config, w Weights) []string {
	d := c.Data
	reads := append(c.Reads(), filesOf(c, append([]string{d.Path}, d.MorePaths...))...)
	if file := d.TokenizerFile(); file != "" {
		reads = append(reads, file)
	}
	if d.Source == "tensors" {
		reads = append(reads, filepath.Join(d.Path, d.Input), filepath.Join(d.Path, d.Target))
	}
	if w.Init != "" {
		file, _ := initial.SplitPath(w.Init)
		reads = append(reads, file)
	}
	if w.Dir != "" {
		for _, name := range []string{rundir.ConfigName, rundir.MetricsName, rundir.CheckpointsName} {
			reads = append(reads, filepath.Join(w.Dir, name))
		}
	}
	return reads
}
