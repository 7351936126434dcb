package berth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
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
	err := errors.Join(t.opt.check(), t.checkOutputs())
	if err != nil {
		return err
	}
	if t.given, err = t.initial(t.opt.Init); err != nil {
		return err
	}
	if err := t.claimDir(); err != nil {
		return err
	}
	if t.opt.Fresh { // what is there is replaced once the new run can start
		t.claim, err = checkpoint.ClaimFile(CheckpointPath(t.opt.Dir), checkpoint.Options{Readers: checkpoint.WaitForReaders})
		return err
	}
	if t.opt.Resume {
		return t.openToResume(ctx)
	}
	t.db, err = t.openCheckpoints()
	switch {
	case errors.Is(err, checkpoint.ErrDamaged):
		return fmt.Errorf("%w; --resume does that by itself and goes on, --fresh begins anew and deletes it", err)
	case err != nil:
		return err
	}
	return t.mustBeEmpty()
}

// openToResume opens the checkpoints, and recovers what damage hides of them
// first: that may be the newest.
func (t *trainer) openToResume(ctx context.Context) (err error) {
	t.db, err = t.openCheckpoints()
	switch {
	case errors.Is(err, checkpoint.ErrDamaged):
		if err := t.recover(ctx); err != nil {
			return err
		}
	case err == nil && t.db.Unreadable():
		if err := t.db.Close(); err != nil {
			return err
		}
		if err := t.recover(ctx); err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			t.opt.Observer.note(fmt.Sprintf("%s stays as it is: %v", CheckpointPath(t.opt.Dir), err))
		}
	default:
		return err
	}
	t.db, err = t.openCheckpoints()
	return err
}

// mustBeEmpty refuses a file that holds checkpoints, or may have held one that
// can no longer be read.
func (t *trainer) mustBeEmpty() error {
	list, skipped, err := t.db.List()
	if err != nil || len(list)+len(skipped) == 0 {
		return err
	}
	what := t.opt.Dir
	if len(list) == 0 {
		what = fmt.Sprintf("%s, though a damaged one: %v", what, skipped[0])
	}
	return fmt.Errorf("%w: %s: use --resume to continue it, or --fresh to begin anew and delete it", ErrHasCheckpoint, what)
}

// claimDir makes the folder, unless it is to hold a run to resume and does
// not, or another's config.yaml, which the run's would replace.
func (t *trainer) claimDir() error {
	dir := t.opt.Dir
	_, err := os.Stat(CheckpointPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		if t.opt.Resume {
			return t.nothingToResume()
		}
		path := filepath.Join(dir, configFile)
		if text, err := os.ReadFile(path); err == nil && !resolved(text) {
			return fmt.Errorf("%w: %s is not of a run, and a run keeps its own config under that name: choose another run folder, or move the file", ErrOptions, path)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("run folder %s: %w", dir, err)
	}
	return nil
}

// resolved reports whether a config is just as a run writes it, so that
// nobody's own words are in it.
func resolved(text []byte) bool {
	if len(bytes.Trim(text, " \r\n\x00")) == 0 {
		return true // a crash left it so
	}
	c, err := configs.Parse(configFile, text, configs.Overlay{})
	if err != nil {
		return false
	}
	again, err := c.YAML()
	return err == nil && bytes.Equal(text, again)
}

// nothingToResume says that there is no checkpoint, and how to begin.
func (t *trainer) nothingToResume() error {
	return fmt.Errorf("%w to resume from in %s: trainer train, with --run %s and without --resume, begins the run", ErrNoCheckpoint, t.opt.Dir, t.opt.Dir)
}

// noneWhole is the damage of a file whose checkpoints are all skipped; the
// first of them, the newest, stands for the others.
func noneWhole(path string, skipped []checkpoint.Skipped) error {
	return fmt.Errorf("%w: %s: none of its checkpoints is whole (%v)", checkpoint.ErrDamaged, path, skipped[0])
}

// nothingWhole says what can still be done about a file of which no
// checkpoint can be used.
func nothingWhole(dir string, err error) error {
	return fmt.Errorf("%w; `trainer checkpoints repair %s whole.db` copies what may still be read, `trainer train CONFIG --run %s --fresh` begins anew and deletes it", err, dir, dir)
}

// recover makes a damaged file one that can be written to, and says what it
// cost.
func (t *trainer) recover(ctx context.Context) error {
	path := CheckpointPath(t.opt.Dir)
	aside, err := checkpoint.Recover(ctx, path, func(s checkpoint.Skipped) {
		t.opt.Observer.note(fmt.Sprintf("skipped %v", s))
	})
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = fmt.Errorf("%w: %s: no checkpoint in it is whole", checkpoint.ErrDamaged, path)
	}
	if errors.Is(err, checkpoint.ErrDamaged) {
		return nothingWhole(t.opt.Dir, err)
	}
	if err != nil {
		return err
	}
	t.opt.Observer.note(fmt.Sprintf("%s was damaged: it now holds what of it is whole, and %s is the file as it was", path, aside))
	return nil
}

// openCheckpoints opens the run folder's checkpoints for writing.
func (t *trainer) openCheckpoints() (*checkpoint.DB, error) {
	return checkpoint.Open(CheckpointPath(t.opt.Dir), t.checkpointOptions())
}

func (t *trainer) checkpointOptions() checkpoint.Options {
	t.saves.bound = bounded(t.Config, t.stateBytes())
	return checkpoint.Options{
		Readers:  checkpoint.WaitForReaders,
		Compress: t.Config.Checkpoint.Compress == "zstd", TxBytes: int(t.saves.txBytes()), ChunkBytes: t.saves.chunkBytes(),
	}
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

// forget deletes the run folder's checkpoints, metrics and report. Nobody else
// gets the folder meanwhile.
func (t *trainer) forget() error {
	var err error
	if t.db, err = t.claim.Replace(t.checkpointOptions()); err != nil {
		return err
	}
	for _, name := range []string{metricsName, reportName} {
		if err := os.Remove(filepath.Join(t.opt.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// openFiles writes the resolved config and opens the metrics. A run to resume
// goes on without room for them: its checkpoints hold the config, too.
func (t *trainer) openFiles() error {
	text, err := t.Config.YAML()
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(t.opt.Dir, configFile), text); err != nil {
		if !t.opt.Resume {
			return err
		}
		t.opt.Observer.note(fmt.Sprintf("%s stays as it was: %v", configFile, err))
	}
	t.metrics, t.losses, t.at.Logged, err = openMetrics(filepath.Join(t.opt.Dir, metricsName), t.at.Step)
	return err
}

// replaceFile gives a file new contents, all of them or, stopped at any
// moment, the old ones.
func replaceFile(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return writeBeside(path, path+".new", func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// SavedConfig is the config that the newest checkpoint of a run folder was made
// with, as the run resolved it, and that checkpoint's ID.
func SavedConfig(dir string) (text []byte, id uint64, err error) {
	db, err := checkpoint.Open(CheckpointPath(dir), checkpoint.Options{ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	list, _, err := db.List()
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%w in %s", ErrNoCheckpoint, dir)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, 0, err
	}
	newest := list[len(list)-1]
	return newest.Config, newest.ID, nil
}
