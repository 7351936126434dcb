package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/berth-ml/berth/engine/osfile"
	"go.etcd.io/bbolt"
)

// Keep says which checkpoints Prune keeps: those that any of its rules names.
// Damaged checkpoints do not count for Last and Best.
type Keep struct {
	Last  int // the number of newest ones; at least one is always kept
	Best  int // the number of best ones, by the metric that the newest one watches
	Every int // those at steps that are multiples of this; 0: the rule is off
}

// Prune deletes the checkpoints that k does not keep, and the chunks that no other
// uses. It returns the number of checkpoints deleted. Later saves use the room;
// [DB.Compact] gives it back.
//
// The checkpoints kept as the newest and the best are whole. To make sure, Prune
// reads those of their chunks that were neither written nor read since the file
// was opened; it does so only if there is something to delete, and until ctx ends.
//
// Prune leaves checkpoints alone that cannot be read, and damaged ones that are
// newer or better than those it keeps: the second result lists them. While the
// records of a checkpoint cannot be read, it deletes no chunks: delete such a
// checkpoint with [DB.Delete] once nothing can be salvaged from it.
func (db *DB) Prune(ctx context.Context, k Keep) (int, []Skipped, error) {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return 0, nil, err
	}
	ms, skipped, err := db.List()
	if err != nil {
		return 0, nil, err
	}
	gone, _, err := k.drops(ms, func(uint64) error { return nil })
	if len(gone) == 0 || err != nil {
		return 0, skipped, err
	}
	gone, bad, err := k.drops(ms, func(id uint64) error { return db.intact(ctx, id) })
	skipped = append(skipped, bad...)
	if err != nil {
		return 0, skipped, err
	}
	before := len(db.index.head.IDs)
	err = db.delete(gone)
	return before - len(db.index.head.IDs), skipped, err
}

// drops are the checkpoints that k does not keep (gone), and the damaged ones that
// it leaves alone (bad). whole tells whether a checkpoint is whole; an error of it
// other than ErrDamaged ends the search.
func (k Keep) drops(ms []Manifest, whole func(id uint64) error) (gone []uint64, bad []Skipped, err error) {
	newest := slices.Clone(ms)
	slices.Reverse(newest)
	kept := map[uint64]bool{}
	for _, rule := range []struct {
		order []Manifest
		n     int
	}{{newest, max(k.Last, 1)}, {byRank(ms), k.Best}} {
		more, err := keepWhole(rule.order, rule.n, kept, whole)
		bad = append(bad, more...)
		if err != nil {
			return nil, bad, err
		}
	}
	for _, m := range ms {
		if !kept[m.ID] && (k.Every <= 0 || m.Step%k.Every != 0) {
			gone = append(gone, m.ID)
		}
	}
	return gone, bad, nil
}

// keepWhole keeps the first checkpoints of ms, up to the n-th whole one. It returns
// the damaged ones among them that were not kept already.
func keepWhole(ms []Manifest, n int, kept map[uint64]bool, whole func(id uint64) error) (bad []Skipped, err error) {
	for _, m := range ms {
		if n <= 0 {
			break
		}
		err := whole(m.ID)
		switch {
		case err == nil:
			n--
		case !errors.Is(err, ErrDamaged):
			return bad, err
		case !kept[m.ID]:
			bad = append(bad, Skipped{m.ID, err})
		}
		kept[m.ID] = true
	}
	return bad, nil
}

// intact reads the chunks of a checkpoint that are not known to be whole. The
// caller holds db.writer.
func (db *DB) intact(ctx context.Context, id uint64) error {
	s, err := db.Load(id)
	if err != nil {
		return err
	}
	for i := range s.Manifest.Tensors {
		err := s.eachChunk(ctx, &s.Manifest.Tensors[i], func(c Chunk, read func() ([]byte, error)) error {
			st := db.index.chunks[c.Hash]
			if st != nil && st.good && st.size == c.Size {
				return nil
			}
			if _, err := read(); err != nil {
				return err
			}
			if st != nil {
				st.good, st.size = true, c.Size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete deletes checkpoints by id, and the chunks that no other uses.
func (db *DB) Delete(ids ...uint64) error {
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.delete(ids)
}

// delete deletes the checkpoints in one transaction, and their chunks in later
// ones. If it is cut short between them, the next Open deletes the chunks.
func (db *DB) delete(ids []uint64) error {
	if err := db.writable(); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if !db.index.has(id) {
			return fmt.Errorf("%s: checkpoint %d: %w: `trainer checkpoints ls %s` lists those that there are", db.path, id, ErrNotFound, db.path)
		}
	}
	h := db.index.without(ids)
	err := db.update(func(tx *bbolt.Tx) error {
		for _, id := range ids {
			for _, b := range [][]byte{bucketManifests, bucketTensors} {
				if err := tx.Bucket(b).Delete(idKey(id)); err != nil {
					return err
				}
			}
		}
		return putHead(tx, h)
	})
	if e := db.afterDelete(err); e != nil {
		return fmt.Errorf("%s: deleting checkpoints %v: %w", db.path, ids, e)
	}
	return nil
}

// afterDelete reads the index again, and reclaims chunks. A chunk that was known
// to be whole still is: no transaction of delete writes over one.
func (db *DB) afterDelete(err error) error {
	if db.broken != nil {
		return err
	}
	known := db.index.chunks
	if e := db.reindex(); err != nil || e != nil {
		return errors.Join(err, e)
	}
	db.index.trust(known)
	return db.reclaim()
}

// reclaimAtOnce is the most chunks that one transaction deletes.
const reclaimAtOnce = 1024

// reclaim deletes the chunks that no checkpoint uses.
func (db *DB) reclaim() error {
	gone := db.index.unused()
	for some := range slices.Chunk(gone, reclaimAtOnce) {
		err := db.update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketChunks)
			for _, h := range some {
				if err := b.DeleteBucket(h[:]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			err = fmt.Errorf("reclaiming %d unused chunks: %w", len(gone), err)
			if db.broken == nil { // after a failed sync nobody knows whether they are there
				if e := db.reindex(); e != nil {
					err = fmt.Errorf("%w; then also: %w", err, e)
				}
			}
			return err
		}
		for _, h := range some {
			delete(db.index.chunks, h)
		}
	}
	return nil
}

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
		err = fmt.Errorf("%w; then also: %w", err, after)
	}
	return err
}

// compactInto fills dst, renames it to the path of db, and makes db use it. dst is
// locked already, so no other process can open it between.
func (db *DB) compactInto(ctx context.Context, dst *DB) error {
	if _, err := db.copyTo(ctx, dst, func(s Skipped) error { return s.Err }); err != nil {
		return err
	}
	h := &dst.index.head
	h.Next = max(h.Next, db.index.head.Next)
	if err := dst.update(func(tx *bbolt.Tx) error { return putHead(tx, *h) }); err != nil {
		return err
	}
	if err := takePlace(dst.path, db.path, db.file); err != nil {
		return err
	}
	osfile.RemovePid(dst.path)
	db.mu.Lock()
	defer db.mu.Unlock()
	old := db.bolt
	db.bolt, db.file, db.im, db.index = dst.bolt, dst.file, dst.im, dst.index
	dst.closed = true
	if err := db.guard(old.Close); err != nil {
		return err
	}
	return osfile.SyncDir(filepath.Dir(db.path))
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
