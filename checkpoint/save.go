package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Save stores a snapshot of what src holds and returns its id. It is all or
// nothing: an error, a cancelled context, a full disk or a killed process
// leave the file with the checkpoints it had before, and the room taken is
// given back by the next save at the latest. When Save returns nil, the
// checkpoint is on the disk.
//
// Of m, the fields that Save sets (see Manifest) are ignored. Save holds at most
// three times OpenOptions.TxBytes in memory. It blocks while another change runs.
func (db *DB) Save(ctx context.Context, m Manifest, src Source) (uint64, error) {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return 0, err
	}
	return db.save(ctx, m, src, db.head.Next)
}

func (db *DB) save(ctx context.Context, m Manifest, src Source, id uint64) (uint64, error) {
	m.ID = id
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	m.Time = m.Time.UTC().Round(0)
	err := db.reclaim()
	if err == nil && db.opts.Compress && db.im.format < FormatPacked {
		err = db.update(func(tx *bbolt.Tx) error { return putFormat(tx, FormatPacked) })
	}
	if err == nil {
		m.Format = db.im.format
		s := &saving{db: db, ctx: ctx, src: src, m: &m, fresh: map[Hash]bool{}, copied: map[Hash]bool{}, pages: db.im}
		if err = s.run(); err != nil {
			err = s.abort(err)
		}
	}
	if err == nil {
		return id, nil
	}
	hint := ""
	if outOfSpace(err) {
		hint = ": free some space, or keep fewer checkpoints"
	}
	return 0, fmt.Errorf("%s: saving checkpoint %d of step %d: %w%s", db.path, id, m.Step, err, hint)
}

// saving is one save in progress.
type saving struct {
	db    *DB
	ctx   context.Context
	src   Source
	m     *Manifest
	fresh map[Hash]bool // chunks this save writes

	pages  *image // of the file as it was; for their size
	small  []byte // second copy of contents that may share pages
	copied map[Hash]bool
	spares []Chunk // second copies

	left   int64      // contents not yet read
	batch  batch      // being filled
	next   []byte     // buffer of the batch being committed
	spare  []byte     // buffer of one committed before
	commit chan error // result of the batch being committed; nil: none is
}

// batch is what one transaction will write. The contents lie in one buffer,
// which must not change until the transaction is committed: bbolt keeps slices.
type batch struct {
	buf    []byte
	used   int // bytes of buf
	lent   int // bytes that are the source's, and not in buf
	packed int // bytes that are compressed, and not in buf
	pieces []piece
}

// large reports whether the batch is worth an access to the disk for each
// piece: 4 MiB and more, in pieces of half a MiB and more on average.
func (b *batch) large() bool { return b.used+b.lent+b.packed >= max(len(b.pieces), 8)<<19 }

type piece struct {
	hash    Hash
	data    []byte
	packed  bool // compressed
	replace bool // what is stored under the hash is damaged
}

func (s *saving) run() error {
	tensors := s.src.Tensors()
	if err := checkTensors(tensors); err != nil {
		return err
	}
	if len(s.m.Extra) > 0 && !json.Valid(s.m.Extra) {
		return fmt.Errorf("the manifest's Extra is not valid JSON")
	}
	for _, t := range tensors {
		s.left += t.Meta.Bytes()
	}
	s.m.Bytes, s.m.Fresh, s.m.Stored, s.m.Count = s.left, 0, 0, len(tensors)
	s.m.Tensors = make([]TensorEntry, len(tensors))
	for i, t := range tensors {
		e := &s.m.Tensors[i]
		e.Tensor = Tensor{t.Name, t.Meta, t.Role}
		if err := s.tensor(e); err != nil {
			return fmt.Errorf("tensor %q %v: %w", t.Name, t.Meta, err)
		}
	}
	return s.finish()
}

// tensor reads a tensor chunk by chunk, and queues what is not stored yet.
func (s *saving) tensor(e *TensorEntry) error {
	size := e.Meta.Bytes()
	for off := int64(0); off < size; {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		n := int(min(size-off, int64(s.db.opts.ChunkBytes)))
		data, lent, err := s.contents(e.Name, off, n)
		if err != nil {
			return err
		}
		h := hashOf(data)
		e.Chunks = append(e.Chunks, Chunk{h, n})
		if n <= s.pages.share() && !s.copied[h] {
			s.copied[h] = true
			s.small = appendSmall(s.small, data)
		}
		s.queue(h, data, lent)
		off += int64(n)
		s.left -= int64(n)
	}
	return nil
}

// contents is a piece of a tensor, in the source's memory if that lends it, or
// in the batch's.
func (s *saving) contents(name string, off int64, n int) (data []byte, lent bool, err error) {
	if l, ok := s.src.(Lender); ok {
		if data, err = l.Lend(name, off, n); err == nil && data != nil {
			if b := &s.batch; b.used+b.lent+b.packed+n > s.db.opts.TxBytes {
				err = s.flush()
			}
			return data, true, err
		}
	}
	if err == nil {
		if data, err = s.room(n); err != nil {
			return nil, false, err
		}
		err = s.src.Read(name, off, data)
	}
	if err != nil {
		err = fmt.Errorf("reading %d bytes at %d: %w", n, off, err)
	}
	return data, false, err
}

// room is a place for the next n bytes, valid until the next call.
func (s *saving) room(n int) ([]byte, error) {
	b := &s.batch
	if b.used+n > len(b.buf) || b.lent+b.packed > s.db.opts.TxBytes {
		if err := s.flush(); err != nil {
			return nil, err
		}
		if b.buf = s.spare; len(b.buf) < n {
			b.buf = make([]byte, max(int64(n), min(s.left, int64(s.db.opts.TxBytes))))
		}
		s.spare = nil
	}
	return b.buf[b.used : b.used+n : b.used+n], nil
}

// queue adds a chunk to the batch unless it is stored already, whole.
func (s *saving) queue(h Hash, data []byte, lent bool) {
	if s.fresh[h] {
		return
	}
	old := s.db.chunks[h]
	if old != nil && s.db.whole(h, old, len(data)) {
		return
	}
	s.fresh[h] = true
	s.m.Fresh += int64(len(data))
	p := piece{h, data, false, old != nil}
	if s.db.opts.Compress {
		if small := pack(data); small != nil {
			p.data, p.packed = small, true
			s.batch.packed += len(small)
		}
	}
	switch {
	case p.packed:
	case lent:
		s.batch.lent += len(data)
	default:
		s.batch.used += len(data)
	}
	s.m.Stored += int64(len(p.data))
	s.batch.pieces = append(s.batch.pieces, p)
}

// again adds a second copy to the last batch, as a chunk.
func (s *saving) again(data []byte) Hash {
	h := hashOf(data)
	s.spares = append(s.spares, Chunk{h, len(data)})
	old := s.db.chunks[h]
	if !s.fresh[h] && (old == nil || !s.db.whole(h, old, len(data))) {
		s.fresh[h] = true
		s.batch.pieces = append(s.batch.pieces, piece{hash: h, data: data, replace: old != nil})
	}
	return h
}

// whole reports whether the stored chunk is what its hash says: it is read
// back once before anything new relies on it.
func (db *DB) whole(h Hash, st *stored, size int) bool {
	if st.size >= 0 && st.size != size {
		return false
	}
	if !st.good {
		db.mu.RLock()
		st.good = db.im.chunk(h, make([]byte, size)) == nil
		db.mu.RUnlock()
	}
	return st.good
}

// flush starts committing the batch, once the one before is committed.
func (s *saving) flush() error {
	if err := s.wait(); err != nil {
		return err
	}
	full := s.batch
	s.batch = batch{}
	if len(full.pieces) == 0 {
		s.spare = full.buf
		return nil
	}
	done := make(chan error, 1)
	s.commit = done
	go func() {
		done <- s.db.commit(func(tx *bbolt.Tx) error { return putChunks(tx, full.pieces) }, full.large())
	}()
	s.next = full.buf
	return nil
}

// wait for the batch being committed; its buffer can be used again then.
func (s *saving) wait() error {
	if s.commit == nil {
		return nil
	}
	err := <-s.commit
	s.commit = nil
	s.spare, s.next = s.next, nil
	return err
}

func putChunks(tx *bbolt.Tx, pieces []piece) error {
	chunks := tx.Bucket(bucketChunks)
	for _, p := range pieces {
		if p.replace {
			if err := chunks.DeleteBucket(p.hash[:]); err != nil {
				return err
			}
		}
		// A bucket of its own keeps a chunk on pages of its own: its
		// neighbours are not written again when it comes or goes.
		b, err := chunks.CreateBucket(p.hash[:])
		if err != nil {
			return err
		}
		key := keyRaw
		if p.packed {
			key = keyZstd
		}
		if err := b.Put(key, p.data); err != nil {
			return err
		}
	}
	return nil
}

// finish commits the last chunks together with the manifest, the tensor table
// and the head: before this transaction there is no checkpoint, after it there
// is a whole one.
func (s *saving) finish() error {
	db := s.db
	manifest, table, err := s.records()
	if err != nil {
		return err
	}
	if err := s.wait(); err != nil {
		return err
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	key := idKey(s.m.ID)
	h := head{Next: max(db.head.Next, s.m.ID+1), IDs: append(slices.Clone(db.head.IDs), s.m.ID)}
	slices.Sort(h.IDs)
	err = db.commit(func(tx *bbolt.Tx) error {
		if err := putChunks(tx, s.batch.pieces); err != nil {
			return err
		}
		if err := tx.Bucket(bucketTensors).Put(key, seal(bucketTensors, key, table)); err != nil {
			return err
		}
		if err := tx.Bucket(bucketManifests).Put(key, seal(bucketManifests, key, manifest)); err != nil {
			return err
		}
		return putHead(tx, h)
	}, s.batch.large())
	if err != nil {
		return err
	}
	db.head = h
	s.stored()
	return nil
}

// records are the payloads of the manifest and the tensor table; their second
// copies go into the batch.
func (s *saving) records() (manifest, table []byte, err error) {
	if table, err = encodeTable(s.db.opts.ChunkBytes, s.m.Tensors); err != nil {
		return nil, nil, err
	}
	to := links{table: hashOf(table)}
	if s.small != nil {
		to.small = s.again(s.pages.apart(s.small))
	}
	if manifest, err = encodeManifest(s.m, to); err != nil {
		return nil, nil, err
	}
	s.again(s.pages.spareRecords(s.m.ID, manifest, table))
	return manifest, table, nil
}

// stored enters the checkpoint in the index.
func (s *saving) stored() {
	enter := func(c Chunk) {
		if s.fresh[c.Hash] {
			s.fresh[c.Hash] = false
			refs := 0
			if old := s.db.chunks[c.Hash]; old != nil {
				refs = old.refs
			}
			s.db.chunks[c.Hash] = &stored{size: c.Size, refs: refs, good: true}
		}
		s.db.chunks[c.Hash].refs++
	}
	for _, t := range s.m.Tensors {
		for _, c := range t.Chunks {
			enter(c)
		}
	}
	for _, c := range s.spares {
		enter(c)
	}
}

// abort gives back what the save had written. What the file holds is read
// again, because after a failed sync nobody knows; a checkpoint that turns
// out to be there stays, as one that an error was reported for.
func (s *saving) abort(cause error) error {
	if s.commit != nil {
		<-s.commit
		s.commit = nil
	}
	if s.db.broken != nil {
		return cause
	}
	if err := s.db.reindex(); err != nil {
		return fmt.Errorf("%w; after it: %w", cause, err)
	}
	if err := s.db.reclaim(); err != nil && !outOfSpace(err) {
		return fmt.Errorf("%w; after it: %w", cause, err)
	}
	return cause
}
