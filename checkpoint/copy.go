package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
)

// Copy copies the checkpoints of a file into a new file at to, under the same
// ids. It takes no lock: another process may write to the file meanwhile.
//
// Everything is checked as it is read. The copy appears at to once it is
// complete, or not at all. Checkpoints that are deleted meanwhile are left out;
// damaged ones are left out and handed to report, which may be nil.
//
// It returns the number of checkpoints copied. The error is ErrNotFound if there
// is none to copy, and ErrHeld if they are deleted faster than they are copied.
func Copy(ctx context.Context, from, to string, report func(Skipped)) (n int, err error) {
	if _, err := os.Lstat(to); err == nil {
		return 0, fmt.Errorf("copy into %s: %w: name a file that does not exist", to, fs.ErrExist)
	}
	src, err := openLive(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	tmp := ownName(to, ".berth-copy-")
	defer func() { err = notNamed(err, tmp, to) }()
	dst, err := openNew(tmp, src.file, OpenOptions{Compress: src.packed()})
	if err != nil {
		return 0, err
	}
	if report == nil {
		report = func(Skipped) {}
	}
	if n, err = fillCopy(ctx, src, dst, to, report); err != nil {
		return 0, err
	}
	return n, osfile.SyncDir(filepath.Dir(to))
}

// fillCopy fills dst, gives it its name and closes it. Nothing is left of it
// where that fails, or report panics.
func fillCopy(ctx context.Context, src, dst *DB, to string, report func(Skipped)) (n int, err error) {
	tmp := dst.path
	defer func() { err = errors.Join(err, removeMade(tmp), dst.Close()) }()
	if n, err = src.copyLive(ctx, dst, report); err != nil {
		return 0, err
	}
	return n, appear(tmp, to)
}

// packed reports whether the file may have compressed chunks.
func (db *DB) packed() bool {
	format := Format
	_ = db.read(func(im *image) error { // reading says what is wrong
		format = im.format
		return nil
	})
	return format >= FormatPacked
}

// copyLive copies the checkpoints that the file has now into dst. If all of them
// are deleted before they are copied, it tries again with those that it has then.
func (db *DB) copyLive(ctx context.Context, dst *DB, report func(Skipped)) (int, error) {
	damaged := false
	tell := func(s Skipped) {
		damaged = true
		report(s)
	}
	newest := uint64(0)
	err := UntilRead(func() (err error) {
		deleted := false
		if newest, deleted, err = db.copyNewer(ctx, dst, newest, tell); err == nil && deleted && len(dst.index.head.IDs) == 0 {
			err = fmt.Errorf("%s: %w", db.path, ErrDeleted)
		}
		return err
	})
	n := len(dst.index.head.IDs)
	switch {
	case errors.Is(err, ErrDeleted):
		return 0, fmt.Errorf("%w: %w", ErrHeld, err)
	case err != nil:
		return 0, err
	case n > 0:
		return n, nil
	case damaged:
		return 0, fmt.Errorf("%s: %w: none of its checkpoints is complete", db.path, ErrDamaged)
	}
	return 0, fmt.Errorf("%s: %w: nothing has been saved in this file yet", db.path, ErrNotFound)
}

// copyNewer copies the checkpoints whose id is above than. It returns the highest
// id it met, and whether a checkpoint was deleted before it was copied.
func (db *DB) copyNewer(ctx context.Context, dst *DB, than uint64, tell func(Skipped)) (newest uint64, deleted bool, err error) {
	var ids, lost []uint64
	err = db.steady(func(im *image) (err error) {
		ids, lost, err = im.ids()
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("%s: list of checkpoints: %w", db.path, err)
	}
	for _, id := range lost {
		if than == 0 {
			tell(lostCheckpoint(id))
		}
	}
	newest = than
	for _, id := range ids {
		if id <= than {
			continue
		}
		gone, err := db.copyUnless(ctx, dst, id, tell)
		if err != nil {
			return newest, deleted, err
		}
		newest, deleted = id, deleted || gone
	}
	return newest, deleted, nil
}

// copyUnless copies a checkpoint. One that was deleted meanwhile is gone; a damaged
// one is reported.
func (db *DB) copyUnless(ctx context.Context, dst *DB, id uint64, report func(Skipped)) (gone bool, err error) {
	err = db.copyOne(ctx, dst, id)
	if err == nil || ctx.Err() != nil {
		return false, err
	}
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDeleted) {
		return false, err
	}
	if db.deleted(id) {
		return true, nil
	}
	report(Skipped{id, err})
	return false, nil
}

// copyTo saves every checkpoint into dst. One that cannot be read goes to skip; an
// error of skip ends the copying.
func (db *DB) copyTo(ctx context.Context, dst *DB, skip func(Skipped) error) (int, error) {
	ms, skipped, err := db.list(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range skipped {
		if err := skip(s); err != nil {
			return 0, err
		}
	}
	n := 0
	for _, m := range ms {
		err := db.copyOne(ctx, dst, m.ID)
		if err == nil {
			n++
			continue
		}
		if ctx.Err() != nil || !errors.Is(err, ErrDamaged) {
			return n, err
		}
		if err := skip(Skipped{m.ID, err}); err != nil {
			return n, err
		}
	}
	return n, nil
}

func (db *DB) copyOne(ctx context.Context, dst *DB, id uint64) error {
	s, err := db.Load(id)
	if err != nil {
		return err
	}
	dst.writer.Lock()
	defer dst.writer.Unlock()
	_, err = dst.save(ctx, s.Manifest, s, id)
	return err
}
