package checkpoint

import (
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// reindex reads from the file which chunks and checkpoints it has, and counts
// the uses of each chunk.
func (db *DB) reindex() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.inspect(); err != nil {
		return err
	}
	db.chunks, db.keep = map[Hash]*stored{}, db.im.note != nil // the lost meta page may have led to one more checkpoint
	err := db.im.each(bucketChunks, func(it item) error {
		if len(it.key) != len(Hash{}) {
			db.keep = true // a damaged key: a checkpoint may need these contents
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

// countUses counts the uses of chunks by a checkpoint, and by its second copies.
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

// count adds the uses of chunks by tensors.
func (db *DB) count(ts []TensorEntry) {
	for _, t := range ts {
		for _, c := range t.Chunks {
			if s := db.chunks[c.Hash]; s != nil {
				s.refs++
			}
		}
	}
}

// Unreadable reports whether the file had damaged records when it was opened.
// [Recover] finds the contents that they led to, if they are still there. Until
// then, or until the damaged checkpoints are deleted, no room is reclaimed.
func (db *DB) Unreadable() bool {
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.keep
}

// reclaimAtOnce is the most chunks that one transaction deletes.
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
