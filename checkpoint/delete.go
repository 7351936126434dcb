package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

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
		if _, ok := slices.BinarySearch(db.head.IDs, id); !ok {
			return fmt.Errorf("%s: checkpoint %d: %w: `trainer checkpoints ls %s` lists those that there are", db.path, id, ErrNotFound, db.path)
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

// afterDelete reads the index again, and reclaims chunks. A chunk that was known
// to be whole still is: no transaction of delete writes over one.
func (db *DB) afterDelete(err error) error {
	if db.broken != nil {
		return err
	}
	known := db.chunks
	if e := db.reindex(); err != nil || e != nil {
		return errors.Join(err, e)
	}
	for h, s := range db.chunks {
		if old := known[h]; old != nil {
			s.good, s.size = old.good, old.size
		}
	}
	return db.reclaim()
}
