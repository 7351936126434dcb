package checkpoint

import (
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// stored is a chunk in the file.
type stored struct {
	size int  // of the contents; -1: it has none, or they are compressed and not read yet
	refs int  // tensors of checkpoints that use it
	good bool // written, or read back and found whole, since the file was opened
}

// reindex learns from the file what it holds, and who uses it.
func (db *DB) reindex() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.inspect(); err != nil {
		return err
	}
	db.chunks, db.keep = map[Hash]*stored{}, db.im.note != nil // then a checkpoint that was saved last may be one that nothing leads to
	err := db.im.each(bucketChunks, func(it item) error {
		if len(it.key) != len(Hash{}) {
			db.keep = true // a damaged key: the contents may be what a checkpoint misses
			return nil
		}
		size := -1
		if raw, packed, err := db.im.contents(it); err == nil && !packed {
			size = int(raw.size)
		}
		db.chunks[Hash(it.key)] = &stored{size: size}
		return nil
	})
	if err != nil {
		return err
	}
	ids, lost, err := db.im.ids()
	if err != nil {
		return err
	}
	db.keep = db.keep || len(lost) > 0
	next := uint64(1)
	for _, id := range ids {
		next = id + 1
		if db.countUses(id) != nil {
			db.keep = true
		}
	}
	h, err := db.im.readHead()
	db.keep = db.keep || err != nil
	db.head = head{Next: max(h.Next, next), IDs: ids}
	return nil
}

// countUses counts a checkpoint among who uses its chunks, and its second copies.
func (db *DB) countUses(id uint64) error {
	m, err := db.im.manifest(id, true)
	if err != nil {
		return err
	}
	spares, err := db.im.spares(id)
	if err != nil {
		return err
	}
	db.count(m.Tensors)
	for _, h := range spares {
		if s := db.chunks[h]; s != nil {
			s.refs++
		}
	}
	return nil
}

// count adds to the references of the chunks of ts.
func (db *DB) count(ts []TensorEntry) {
	for _, t := range ts {
		for _, c := range t.Chunks {
			if s := db.chunks[c.Hash]; s != nil {
				s.refs++
			}
		}
	}
}

// Unreadable reports whether the file, as it was when it was opened, had records
// that could not be read. What they led to may still be in it: [Recover] finds it.
// Until then, or until they are deleted, no room is reclaimed.
func (db *DB) Unreadable() bool {
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.keep
}

// reclaimAtOnce is the most chunks deleted in one transaction.
const reclaimAtOnce = 1024

// reclaim deletes the chunks that no checkpoint uses.
func (db *DB) reclaim() error {
	if db.keep {
		return nil
	}
	var gone []Hash
	for h, s := range db.chunks {
		if s.refs == 0 {
			gone = append(gone, h)
		}
	}
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
					err = fmt.Errorf("%w; after it: %w", err, e)
				}
			}
			return err
		}
		for _, h := range some {
			delete(db.chunks, h)
		}
	}
	return nil
}
