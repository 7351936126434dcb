package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/berth-ml/berth/engine/osfile"
	"go.etcd.io/bbolt"
)

// Compact copies the checkpoints into a new file and puts it in the place of the
// old one, which gives back the room of deleted ones. If a checkpoint is damaged,
// Compact fails and leaves the file as it is. Snapshots stay valid.
func (db *DB) Compact(ctx context.Context) error {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	tmp := osfile.Beside(db.path, compactSuffix)
	if err := db.compact(ctx, tmp); err != nil {
		return fmt.Errorf("compacting %s: %w", db.path, notNamed(err, tmp, "its replacement"))
	}
	return nil
}

// compact is Compact by way of a file at tmp. Only a killed process leaves it
// behind.
func (db *DB) compact(ctx context.Context, tmp string) error {
	dst, err := openNew(tmp, db.file, db.opts)
	if err != nil {
		return err
	}
	if err = db.compactInto(ctx, dst); err == nil {
		return nil
	}
	// It is removed while it is locked: no other process can open it.
	if after := errors.Join(removeMade(tmp), dst.Close()); after != nil {
		err = fmt.Errorf("%w; after it: %w", err, after)
	}
	return err
}

// leastWaste is the free room, in bytes, that is worth a compaction.
const leastWaste = 8 << 20

// Tidy compacts the file if more than half of it, and at least 8 MiB, is free,
// and reports whether it did. It is cheap to ask.
func (db *DB) Tidy(ctx context.Context) (bool, error) {
	free, size, err := db.free()
	if err != nil || free < leastWaste || 2*free <= size {
		return false, err
	}
	return true, db.Compact(ctx)
}

// free is the bytes of the file that nothing uses, and its size.
func (db *DB) free() (free, size int64, err error) {
	im, unlock, err := db.reading()
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	_, ids, err := im.freelist()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", db.path, err)
	}
	// The end of the file, which bbolt has not used yet, is free, too.
	return int64(len(ids)/8)*im.page + max(0, im.size-int64(im.high)*im.page), im.size, nil
}

// compactInto fills dst, renames it to the path of db, and makes db use it. dst is
// locked already, so no other process can open it between.
func (db *DB) compactInto(ctx context.Context, dst *DB) error {
	if _, err := db.copyTo(ctx, dst, func(s Skipped) error { return s.Err }); err != nil {
		return err
	}
	dst.head.Next = max(dst.head.Next, db.head.Next)
	if err := dst.update(func(tx *bbolt.Tx) error { return putHead(tx, dst.head) }); err != nil {
		return err
	}
	if err := takePlace(dst.path, db.path, db.file); err != nil {
		return err
	}
	removePid(dst.path)
	db.mu.Lock()
	defer db.mu.Unlock()
	old := db.bolt
	db.bolt, db.file, db.im, db.chunks, db.head, db.keep = dst.bolt, dst.file, dst.im, dst.chunks, dst.head, dst.keep
	dst.closed = true
	if err := db.guard(old.Close); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(db.path))
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
