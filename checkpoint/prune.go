package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/engine/osfile"
)

// Keep says which checkpoints Prune keeps: those that any of its rules names.
// What is damaged does not count for Last and Best.
type Keep struct {
	Last  int // this many of the newest; at least one is always kept
	Best  int // this many with the best value of the metric that the newest watches
	Every int // those at a step that is a multiple of it; 0: none for that
}

// Prune deletes the checkpoints that k does not keep, and the chunks that no
// other uses; it returns how many checkpoints it deleted. Those kept as the
// newest and the best are whole: where there is something to delete, what of them was not
// written or read since the file was opened is read, unless ctx has ended.
// Checkpoints that cannot be read are left alone, as are damaged ones that are
// newer or better than those; they are the second result. While a
// checkpoint's records cannot be read, no chunks are deleted: take it out with
// [DB.Delete] once nothing can be salvaged from it. The room is used by later
// saves; [DB.Compact] gives it back.
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
	return len(gone), skipped, db.delete(gone)
}

// drops are the checkpoints that k does not keep, and those that it would keep
// were they whole, which whole tells: ErrDamaged, or an error that ends it.
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

// keepWhole keeps the first of ms up to the n-th whole one. It returns the
// damaged ones that were not kept already.
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

// intact reads what of a checkpoint is not known to be whole. The caller holds
// db.writer.
func (db *DB) intact(ctx context.Context, id uint64) error {
	s, err := db.Load(id)
	if err != nil {
		return err
	}
	var buf []byte
	for i := range s.Manifest.Tensors {
		t := &s.Manifest.Tensors[i]
		for k, c := range t.Chunks {
			st := db.chunks[c.Hash]
			if st != nil && st.good && st.size == c.Size {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if len(buf) < c.Size {
				buf = make([]byte, c.Size)
			}
			if err := s.chunk(t, k, 0, buf[:c.Size]); err != nil {
				return err
			}
			if st != nil {
				st.good, st.size = true, c.Size
			}
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

// delete takes the checkpoints out in one transaction, and their chunks in
// later ones: were it cut short between, the next Open finishes it.
func (db *DB) delete(ids []uint64) error {
	if err := db.writable(); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	for _, id := range ids {
		if _, ok := slices.BinarySearch(db.head.IDs, id); !ok {
			return fmt.Errorf("%s: checkpoint %d: %w: list the checkpoints to see which there are", db.path, id, ErrNotFound)
		}
	}
	gone := slices.Sorted(slices.Values(ids))
	h := head{Next: db.head.Next}
	for _, id := range db.head.IDs {
		if _, ok := slices.BinarySearch(gone, id); !ok {
			h.IDs = append(h.IDs, id)
		}
	}
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

func (db *DB) afterDelete(err error) error {
	if db.broken != nil {
		return err
	}
	known := db.chunks
	if e := db.reindex(); err != nil || e != nil {
		return errors.Join(err, e)
	}
	for h, s := range db.chunks {
		if old := known[h]; old != nil { // nothing was written over it
			s.good, s.size = old.good, old.size
		}
	}
	return db.reclaim()
}

// copyTo saves every checkpoint into dst. What cannot be read goes to skip,
// whose error ends the copying.
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

// Compact writes what the file holds into a new one and puts that in its
// place, giving back the room of what was deleted. A damaged checkpoint is an
// error, and leaves the file as it is. Snapshots stay valid.
func (db *DB) Compact(ctx context.Context) error {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	if err := db.compact(ctx, db.path+compactSuffix); err != nil {
		return fmt.Errorf("compacting %s: %w", db.path, err)
	}
	return nil
}

// compact is Compact by way of a file that is left only by a killed process.
func (db *DB) compact(ctx context.Context, tmp string) error {
	if err := removeMade(tmp); err != nil {
		return err
	}
	dst, err := Open(tmp, db.opts)
	if err == nil {
		if err = db.compactInto(ctx, dst); err == nil {
			return nil
		}
	}
	after := removeMade(tmp) // before it is closed: nobody else gets it
	if dst != nil {
		after = errors.Join(after, dst.Close())
	}
	if after != nil {
		err = fmt.Errorf("%w; after it: %w", err, after)
	}
	return err
}

// leastWaste is the free room that is worth a compaction.
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

// free is the room in the file that nothing uses, and its size.
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
	// What bbolt has not used of the file yet is free, too.
	return int64(len(ids)/8)*im.page + max(0, im.size-int64(im.high)*im.page), im.size, nil
}

// compactInto fills dst and takes its place. dst is locked already, so nobody
// comes between.
func (db *DB) compactInto(ctx context.Context, dst *DB) error {
	if _, err := db.copyTo(ctx, dst, func(s Skipped) error { return s.Err }); err != nil {
		return err
	}
	dst.head.Next = max(dst.head.Next, db.head.Next)
	if err := dst.update(func(tx *bbolt.Tx) error { return putHead(tx, dst.head) }); err != nil {
		return err
	}
	if err := osfile.Rename(dst.path, db.path); err != nil {
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
