package checkpoint

import "slices"

// index lists the chunks and the checkpoints of the file, as the newest transaction left them. A
// save asks it for the chunks that are stored already, and pruning for those that nothing uses. The
// DB owns it, and DB.writer guards it.
type index struct {
	chunks map[Hash]*stored
	head   head
	keep   bool // reclaim no chunks: a damaged checkpoint may need some that nothing else names
}

// stored is a chunk in the file, which the index owns.
type stored struct {
	size int  // bytes of the contents; -1: unknown, as they are missing, or compressed and not read yet
	refs int  // uses by tensors and second copies
	good bool // written, or read and found whole, since the file was opened
}

// reindex reads from the file which chunks and checkpoints it has, and counts
// the uses of each chunk.
func (db *DB) reindex() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.inspect(); err != nil {
		return err
	}
	ix := &db.index
	ix.chunks, ix.keep = map[Hash]*stored{}, db.im.note != nil // the lost meta page may have led to one more checkpoint
	err := db.im.each(bucketChunks, func(it item) error {
		if len(it.key) != len(Hash{}) {
			ix.keep = true // a damaged key: a checkpoint may need these contents
			return nil
		}
		size := -1
		if raw, packed, err := db.im.contents(it); err == nil && !packed {
			size = int(raw.size)
		}
		ix.chunks[Hash(it.key)] = &stored{size: size}
		return nil
	})
	if err != nil {
		return err
	}
	ids, lost, err := db.im.ids()
	if err != nil {
		return err
	}
	ix.keep = ix.keep || len(lost) > 0
	next := uint64(1)
	for _, id := range ids {
		next = id + 1
		if db.countUses(id) != nil {
			ix.keep = true
		}
	}
	h, err := db.im.readHead()
	ix.keep = ix.keep || err != nil
	ix.head = head{Next: max(h.Next, next), IDs: ids}
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
	for _, t := range m.Tensors {
		for _, c := range t.Chunks {
			db.index.use(c.Hash)
		}
	}
	for _, h := range spares {
		db.index.use(h)
	}
	return nil
}

// Unreadable reports whether the file had damaged records when it was opened.
// [Recover] finds the contents that they led to, if they are still there. Until
// then, or until the damaged checkpoints are deleted, no room is reclaimed.
func (db *DB) Unreadable() bool {
	db.writer.Lock()
	defer db.writer.Unlock()
	return db.index.keep
}

// use counts a use of a chunk, if the file has it.
func (x *index) use(h Hash) {
	if s := x.chunks[h]; s != nil {
		s.refs++
	}
}

// written notes that a chunk was written, and keeps its uses.
func (x *index) written(c Chunk) {
	refs := 0
	if old := x.chunks[c.Hash]; old != nil {
		refs = old.refs
	}
	x.chunks[c.Hash] = &stored{size: c.Size, refs: refs, good: true}
}

// trust takes what was known of chunks before the index was read again. It holds where no
// transaction has written over a chunk since.
func (x *index) trust(known map[Hash]*stored) {
	for h, s := range x.chunks {
		if old := known[h]; old != nil {
			s.good, s.size = old.good, old.size
		}
	}
}

// unused lists the chunks that no checkpoint uses; none while a damaged checkpoint may need some.
func (x *index) unused() (list []Hash) {
	if x.keep {
		return nil
	}
	for h, s := range x.chunks {
		if s.refs == 0 {
			list = append(list, h)
		}
	}
	return list
}

// has reports whether the head names a checkpoint.
func (x *index) has(id uint64) bool {
	_, ok := slices.BinarySearch(x.head.IDs, id)
	return ok
}

// with is the head once a checkpoint is saved.
func (x *index) with(id uint64) head {
	h := head{Next: max(x.head.Next, id+1), IDs: append(slices.Clone(x.head.IDs), id)}
	slices.Sort(h.IDs)
	return h
}

// without is the head once checkpoints are deleted.
func (x *index) without(ids []uint64) head {
	gone := slices.Sorted(slices.Values(ids))
	h := head{Next: x.head.Next}
	for _, id := range x.head.IDs {
		if _, ok := slices.BinarySearch(gone, id); !ok {
			h.IDs = append(h.IDs, id)
		}
	}
	return h
}
