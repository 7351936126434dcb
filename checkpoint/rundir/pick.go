package rundir

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/checkpoint"
)

// Pick finds the checkpoint that is meant: the one with the ID, or without one
// (0) the best by the watched metric, or the newest. Damaged ones passed over
// are the second result. It fails with checkpoint.ErrDamaged where there are
// checkpoints and none is whole.
func Pick(ctx context.Context, db *checkpoint.DB, best bool, id uint64) (*checkpoint.Snapshot, []checkpoint.Skipped, error) {
	switch {
	case id != 0 && best:
		return nil, nil, fmt.Errorf("%w: the best, and checkpoint %d; give one", ErrPick, id)
	case id != 0:
		s, err := db.Load(id)
		return s, nil, err
	}
	find := db.Latest
	if best {
		find = db.Best
	}
	s, skipped, err := find(ctx)
	switch {
	case !errors.Is(err, checkpoint.ErrNotFound):
		return s, skipped, err
	case len(skipped) > 0:
		return nil, skipped, noneWhole(db.Path(), skipped)
	case best:
		return nil, nil, fmt.Errorf("%s: %w: no checkpoint has checkpoint.best's metric (it is recorded at boundaries, train.boundary, with validation data); use the newest", db.Path(), checkpoint.ErrNotFound)
	}
	return nil, nil, fmt.Errorf("%s: %w: it holds none yet: train until the first is saved, or name another run", db.Path(), checkpoint.ErrNotFound)
}

// Found is a checkpoint to use. Until it is closed, its file stays open for
// reading, and no process can begin to write it. A run that was training already goes on,
// and may delete the checkpoint: reading then fails with checkpoint.ErrDeleted.
type Found struct {
	Snapshot *checkpoint.Snapshot
	BestID   uint64               // the folder's best by the watched metric; 0: none has one
	Skipped  []checkpoint.Skipped // damaged ones passed over

	db *checkpoint.DB
}

// Close closes the file.
func (f *Found) Close() error { return f.db.Close() }

// Find opens the checkpoints of a run folder for reading, and finds the one that
// is meant (see [Pick]). The caller closes it.
func Find(ctx context.Context, dir string, best bool, id uint64) (*Found, error) {
	db, err := checkpoint.Open(CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if err != nil {
		return nil, advised(dir, err)
	}
	snap, skipped, err := Pick(ctx, db, best, id)
	if err != nil {
		return nil, errors.Join(advised(dir, err), db.Close())
	}
	all, _, err := db.List()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Found{Snapshot: snap, BestID: checkpoint.BestOf(all), Skipped: skipped, db: db}, nil
}

// newest gives the manifest of a folder's newest checkpoint to f, beside a process
// that trains there or not at all.
func newest(dir string, beside bool, f func(*checkpoint.DB, checkpoint.Manifest) error) error {
	db, err := checkpoint.Open(CheckpointPath(dir), checkpoint.OpenOptions{ReadOnly: true, Beside: beside})
	if err != nil {
		return err
	}
	list, skipped, err := db.List()
	switch {
	case err != nil:
	case len(list) > 0:
		err = f(db, list[len(list)-1])
	case len(skipped) > 0:
		err = noneWhole(db.Path(), skipped)
	default:
		err = fmt.Errorf("%w in %s", ErrNoCheckpoint, dir)
	}
	return errors.Join(err, db.Close())
}

// SavedConfig is the config that the newest checkpoint of a run folder was made
// with, as the run resolved it, and that checkpoint's ID.
func SavedConfig(dir string) (text []byte, id uint64, err error) {
	err = newest(dir, true, func(_ *checkpoint.DB, m checkpoint.Manifest) error {
		text, id = m.Config, m.ID
		return nil
	})
	return text, id, err
}
