package berth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
)

// Files of a run folder.
const (
	configFile     = "config.yaml"
	metricsName    = "metrics.jsonl"
	checkpointName = "checkpoints.db"
	reportName     = "report.json"
)

// CheckpointPath is where a run folder keeps its checkpoints.
func CheckpointPath(dir string) string { return filepath.Join(dir, checkpointName) }

// openDir makes the run folder and opens its checkpoints. It deletes nothing,
// and keeps a damaged file that it replaces.
func (t *trainer) openDir(ctx context.Context) error {
	switch {
	case t.opt.Dir == "":
		return fmt.Errorf("%w: no run folder is given", ErrOptions)
	case t.opt.Resume && t.opt.Fresh:
		return fmt.Errorf("%w: resume and fresh exclude each other", ErrOptions)
	case t.opt.Resume && t.opt.Init != "":
		return fmt.Errorf("%w: a resumed run takes its weights from the checkpoint, not from %s", ErrOptions, t.opt.Init)
	}
	if err := os.MkdirAll(t.opt.Dir, 0o755); err != nil {
		return fmt.Errorf("run folder %s: %w", t.opt.Dir, err)
	}
	var err error
	t.db, err = t.openCheckpoints()
	if t.opt.Resume && errors.Is(err, checkpoint.ErrDamaged) {
		if err := t.recover(ctx); err != nil {
			return err
		}
		t.db, err = t.openCheckpoints()
	}
	if t.opt.Fresh && (errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, checkpoint.ErrFormat)) {
		return nil // it is deleted once the new run can start
	}
	if err != nil {
		return err
	}
	list, _, err := t.db.List()
	if err == nil && len(list) > 0 && !t.opt.Resume && !t.opt.Fresh {
		return fmt.Errorf("%w: %s: use --resume to continue it, or --fresh to begin anew and delete it", ErrHasCheckpoint, t.opt.Dir)
	}
	return err
}

// recover makes a damaged file one that can be written to, and says what it
// cost.
func (t *trainer) recover(ctx context.Context) error {
	path := CheckpointPath(t.opt.Dir)
	aside, err := checkpoint.Recover(ctx, path, func(s checkpoint.Skipped) {
		t.opt.Observer.note(fmt.Sprintf("skipped %v", s))
	})
	if err != nil {
		return err
	}
	t.opt.Observer.note(fmt.Sprintf("%s was damaged: it now holds what of it is whole, and %s is the file as it was", path, aside))
	return nil
}

// openCheckpoints opens the run folder's checkpoints for writing.
func (t *trainer) openCheckpoints() (*checkpoint.DB, error) {
	t.saves.bound = bounded(t.Config, t.stateBytes())
	return checkpoint.Open(CheckpointPath(t.opt.Dir), checkpoint.Options{
		Compress: t.Config.Checkpoint.Compress == "zstd", TxBytes: int(t.saves.txBytes()), ChunkBytes: t.saves.chunkBytes(),
	})
}

// begin makes the folder's files those of this run. It comes after everything
// that can go wrong before the first step, since a fresh run deletes what an
// earlier one left.
func (t *trainer) begin() error {
	if t.opt.Fresh {
		if err := t.forget(); err != nil {
			return err
		}
	}
	return t.openFiles()
}

// forget deletes the run folder's checkpoints, metrics and report.
func (t *trainer) forget() error {
	if t.db != nil {
		if err := t.db.Close(); err != nil {
			return err
		}
		t.db = nil
	}
	for _, name := range []string{checkpointName, metricsName, reportName} {
		if err := os.Remove(filepath.Join(t.opt.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	t.db, err = t.openCheckpoints()
	return err
}

// openFiles writes the resolved config and opens the metrics.
func (t *trainer) openFiles() error {
	text, err := t.Config.YAML()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.opt.Dir, configFile), text, 0o644); err != nil {
		return err
	}
	t.metrics, t.losses, t.at.Logged, err = openMetrics(filepath.Join(t.opt.Dir, metricsName), t.at.Step)
	return err
}
