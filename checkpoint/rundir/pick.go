package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
)

// Pick finds the checkpoint that w means; w.Dir and w.Init do not count. Damaged ones
// passed over are the second result. It fails with checkpoint.ErrDamaged where there are
// checkpoints and none is whole.
func Pick(ctx context.Context, db *checkpoint.DB, w Weights) (*checkpoint.Snapshot, []checkpoint.Skipped, error) {
	switch {
	case w.ID != 0 && w.Best:
		return nil, nil, fmt.Errorf("%w: the best, and checkpoint %d; give one", ErrPick, w.ID)
	case w.ID != 0 && w.Last:
		return nil, nil, fmt.Errorf("%w: the newest, and checkpoint %d; give one", ErrPick, w.ID)
	case w.Best && w.Last:
		return nil, nil, fmt.Errorf("%w: the best, and the newest; give one", ErrPick)
	case w.ID != 0:
		s, err := db.Load(w.ID)
		return s, nil, err
	}
	find := bestOrLatest
	if w.Best {
		find = (*checkpoint.DB).Best
	}
	if w.Last {
		find = (*checkpoint.DB).Latest
	}
	s, skipped, err := find(db, ctx)
	switch {
	case !errors.Is(err, checkpoint.ErrNotFound):
		return s, skipped, err
	case len(skipped) > 0:
		return nil, skipped, noneWhole(db.Path(), skipped)
	case w.Best:
		return nil, nil, fmt.Errorf("%s: %w: no checkpoint has checkpoint.best's metric (it is recorded at boundaries, train.boundary, with validation data); use the newest", db.Path(), checkpoint.ErrNotFound)
	}
	return nil, nil, fmt.Errorf("%s: %w: it holds none yet: train until the first is saved, or name another run", db.Path(), checkpoint.ErrNotFound)
}

// bestOrLatest is the best whole checkpoint, or the newest where none has the metric.
func bestOrLatest(db *checkpoint.DB, ctx context.Context) (*checkpoint.Snapshot, []checkpoint.Skipped, error) {
	s, skipped, err := db.Best(ctx)
	if !errors.Is(err, checkpoint.ErrNotFound) {
		return s, skipped, err
	}
	s, more, err := db.Latest(ctx)
	for _, x := range more {
		if !slices.ContainsFunc(skipped, func(y checkpoint.Skipped) bool { return x.ID == y.ID }) {
			skipped = append(skipped, x)
		}
	}
	return s, skipped, err
}

// Found is a checkpoint to use. Until it is closed, its file stays open for
// reading, and no process can begin to write it. A run that was training already goes on,
// and may delete the checkpoint: reading then fails with checkpoint.ErrDeleted.
type Found struct {
	Snapshot *checkpoint.Snapshot
	Skipped  []checkpoint.Skipped // damaged ones passed over

	db  *checkpoint.DB
	all []checkpoint.Manifest // those of the folder, oldest first
}

// Close closes the file.
func (f *Found) Close() error { return f.db.Close() }

// Find opens the checkpoints of the run folder w.Dir for reading, and finds the one
// that w means (see [Pick]). Its parameters are their averages, where training keeps such
// (train.ema): see [checkpoint.Snapshot.Averaged]. The caller closes it.
func Find(ctx context.Context, w Weights) (*Found, error) {
	db, err := checkpoint.Open(CheckpointPath(w.Dir), checkpoint.OpenOptions{ReadOnly: true, Beside: true})
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, fmt.Errorf("%w; trainer train CONFIG --run %s trains there, or name another run", err, w.Dir)
	}
	if err != nil {
		return nil, advised(w.Dir, err)
	}
	snap, skipped, err := Pick(ctx, db, w)
	if err != nil {
		return nil, errors.Join(advised(w.Dir, err), db.Close())
	}
	all, _, err := db.List()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Found{Snapshot: snap.Averaged(), Skipped: skipped, db: db, all: all}, nil
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

// Newest is the manifest of the newest checkpoint of a run folder, also while a run trains
// there.
func Newest(dir string) (m checkpoint.Manifest, err error) {
	err = newest(dir, true, func(_ *checkpoint.DB, found checkpoint.Manifest) error {
		m = found
		return nil
	})
	return m, err
}

// Verify reads every byte of the newest checkpoint of a run folder and of the best one, and gives the manifest of the
// newest. The error says which is damaged, or that none is there, or that a run trains there.
func Verify(ctx context.Context, dir string) (m checkpoint.Manifest, err error) {
	err = newest(dir, false, func(db *checkpoint.DB, found checkpoint.Manifest) error {
		m = found
		all, _, err := db.List()
		if err != nil {
			return err
		}
		for _, id := range slices.Compact([]uint64{m.ID, checkpoint.BestOf(all)}) {
			if id != 0 {
				err = errors.Join(err, db.Verify(ctx, id, nil))
			}
		}
		return err
	})
	return m, err
}

// SavedConfig is the config that the newest checkpoint of a run folder was made
// with, as the run resolved it, and that checkpoint's ID.
func SavedConfig(dir string) (text []byte, id uint64, err error) {
	m, err := Newest(dir)
	return m.Config, m.ID, err
}

// LostConfigError is the error of a run folder that gives no config: neither its file, whose reading
// ended with Unread, nor its checkpoints, whose reading ended with Saved.
type LostConfigError struct{ Unread, Saved error }

func (e *LostConfigError) Error() string {
	return fmt.Sprintf("the folder has no config, and the copy of it in the checkpoints cannot be read: %v", e.Saved)
}

func (e *LostConfigError) Unwrap() []error { return []error{e.Unread, e.Saved} }

// ConfigText is the config of the run in a folder: that of its file or, where that was lost, SavedConfig with the
// checkpoint's ID.
func ConfigText(dir string) (text []byte, id uint64, err error) {
	text, unread := osfile.Read(filepath.Join(dir, ConfigName), configs.MaxFile+1)
	if errors.Is(unread, osfile.ErrNotFile) || errors.Is(unread, fs.ErrPermission) { // it is not lost
		return nil, 0, unread
	}
	if len(bytes.Trim(text, " \r\n\x00")) > 0 {
		return text, 0, nil
	}
	text, id, err = SavedConfig(dir)
	if err != nil {
		return nil, 0, &LostConfigError{unread, err}
	}
	return text, id, nil
}
