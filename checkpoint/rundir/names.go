package rundir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
)

// The files of a run folder.
const (
	ConfigName      = "config.yaml"
	MetricsName     = "metrics.jsonl"
	CheckpointsName = "checkpoints.db"
	ReportName      = "report.json"
	TokenizerName   = "tokenizer.json" // of a byte pair encoding
)

// CheckpointPath is the file of a run folder's checkpoints.
func CheckpointPath(dir string) string { return filepath.Join(dir, CheckpointsName) }

// The causes of errors about a folder, or a file in it.
var (
	// ErrHasCheckpoint: a run that is to begin finds another's checkpoints.
	ErrHasCheckpoint = errors.New("the run folder holds a checkpoint")
	// ErrNoCheckpoint: there is nothing to resume from or to use.
	ErrNoCheckpoint = errors.New("no checkpoint")
	// ErrNoRun: a folder that is to be deleted is no run's.
	ErrNoRun = errors.New("there is no run to delete")
	// ErrFolder: the folder holds files that a run would replace.
	ErrFolder = errors.New("the folder cannot hold a run")
	// ErrOutput: a path that must not be written to.
	ErrOutput = errors.New("refusing to write here")
	// ErrPick: two checkpoints are asked for.
	ErrPick = errors.New("two checkpoints are asked for")
)

// nothingToResume says that there is no checkpoint, and how to begin.
func nothingToResume(dir string) error {
	return fmt.Errorf("%w to resume from in %s: trainer train, with --run %s and without --resume, begins the run", ErrNoCheckpoint, dir, dir)
}

// noneWhole is the damage of a file of which no checkpoint can be used. The
// first one skipped, the newest, stands for the others.
func noneWhole(path string, skipped []checkpoint.Skipped) error {
	return fmt.Errorf("%w: %s: none of its checkpoints is whole (%v)", checkpoint.ErrDamaged, path, skipped[0])
}

// advised adds to damage what can be done about it.
func advised(dir string, err error) error {
	if !errors.Is(err, checkpoint.ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; `trainer checkpoints repair %s whole.db` copies what may still be read, `trainer train CONFIG --run %s --fresh` begins anew and deletes it", err, dir, dir)
}
