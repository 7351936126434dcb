package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Save stores a snapshot of the tensors of src and returns its id. It saves all of
// them or nothing: after an error, a cancelled context, a full disk or a killed
// process, the file has the checkpoints it had before. The room that was taken is
// reclaimed by the next save at the latest. When Save returns nil, the checkpoint
// is on the disk.
//
// Save ignores the fields of m that it sets itself (see Manifest). It holds at
// most three times OpenOptions.TxBytes in memory, and blocks while another change
// runs.
func (db *DB) Save(ctx context.Context, m Manifest, src Source) (uint64, error) {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return 0, err
	}
	return db.save(ctx, m, src, db.index.head.Next)
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
	if of, ok := err.(*sourceError); ok {
		return 0, of.error
	}
	return 0, roomAdvised(fmt.Errorf("%s: saving checkpoint %d of step %d: %w", db.path, id, m.Step, err))
}

// saving is one save in progress. The call of Save owns it. While one batch is committed by a
// goroutine, the next is filled.
type saving struct {
	db    *DB
	ctx   context.Context
	src   Source
	m     *Manifest
	fresh map[Hash]bool // chunks that this save writes

	pages  *image        // the file before this save; used for its page size
	small  []byte        // second copy of the small contents, which may share pages with others
	copied map[Hash]bool // chunks that are in small
	spares []Chunk       // the second copies: of the small contents, and of the records

	left   int64      // bytes of contents that are not read yet
	batch  batch      // the batch that is being filled
	next   []byte     // buffer of the batch that is being committed
	spare  []byte     // buffer of a batch that is committed
	commit chan error // result of the batch that is being committed; nil: there is none
}

// batch is the chunks that one transaction will write. Their contents lie in one
// buffer, in the source's memory, or compressed. They must not change until the
// transaction is committed: bbolt keeps slices. The save owns it, and then the goroutine that commits it.
type batch struct {
	buf    []byte
	used   int // bytes of contents in buf
	lent   int // bytes of contents in the source's memory
	packed int // bytes of compressed contents
	pieces []piece
}

// large reports whether the batch is worth an access to the disk for each
// piece: 4 MiB and more, in pieces of half a MiB and more on average.
func (b *batch) large() bool { return b.used+b.lent+b.packed >= max(len(b.pieces), 8)<<19 }

// piece is the contents of one chunk in a batch.
type piece struct {
	hash    Hash
	data    []byte
	packed  bool // data is compressed
	replace bool // the contents stored under the hash are damaged
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
			if _, ok := err.(*sourceError); ok {
				return err
			}
			return fmt.Errorf("tensor %q %v: %w", t.Name, t.Meta, err)
		}
	}
	return s.finish()
}

// sourceError is an error of the source: the file of checkpoints has no part in it.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// tensor reads a tensor chunk by chunk, and queues the chunks that are not stored
// yet.
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

// contents is a piece of a tensor: in the source's memory if the source lends it,
// or else in the batch's buffer.
func (s *saving) contents(name string, off int64, n int) (data []byte, lent bool, err error) {
	if l, ok := s.src.(Lender); ok {
		if data, err = l.Lend(name, off, n); err != nil {
			return nil, false, &sourceError{err}
		}
		if data != nil {
			if b := &s.batch; b.used+b.lent+b.packed+n > s.db.opts.TxBytes {
				err = s.flush()
			}
			return data, true, err
		}
	}
	if data, err = s.room(n); err != nil {
		return nil, false, err
	}
	if err := s.src.Read(name, off, data); err != nil {
		return nil, false, &sourceError{err}
	}
	return data, false, nil
}

// room is memory for the next n bytes, valid until the next call.
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

// queue adds a chunk to the batch unless the file has it, whole.
func (s *saving) queue(h Hash, data []byte, lent bool) {
	if s.fresh[h] {
		return
	}
	old := s.db.index.chunks[h]
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

// secondCopy adds a second copy to the last batch, as a chunk.
func (s *saving) secondCopy(data []byte) Hash {
	h := hashOf(data)
	s.spares = append(s.spares, Chunk{h, len(data)})
	old := s.db.index.chunks[h]
	if !s.fresh[h] && (old == nil || !s.db.whole(h, old, len(data))) {
		s.fresh[h] = true
		s.batch.pieces = append(s.batch.pieces, piece{hash: h, data: data, replace: old != nil})
	}
	return h
}

// whole reports whether a stored chunk matches its hash. It reads the chunk the
// first time that something new relies on it.
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

// flush waits for the batch before, and starts to commit this one.
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

// wait waits for the batch that is being committed. Its buffer is free then.
func (s *saving) wait() error {
	if s.commit == nil {
		return nil
	}
	err := <-s.commit
	s.commit = nil
	s.spare, s.next = s.next, nil
	return err
}

// putChunks stores pieces, which it sorts. Within a transaction bbolt keeps new
// keys in a sorted array: each put moves the keys behind it, and in ascending
// order there are none.
func putChunks(tx *bbolt.Tx, pieces []piece) error {
	slices.SortFunc(pieces, func(a, b piece) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	chunks := tx.Bucket(bucketChunks)
	for _, p := range pieces {
		if p.replace {
			if err := chunks.DeleteBucket(p.hash[:]); err != nil {
				return err
			}
		}
		// A bucket of its own keeps a chunk on pages of its own: adding or
		// deleting it does not rewrite its neighbours.
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

// finish commits the last chunks together with the manifest, the tensor table and
// the head. This transaction makes the checkpoint: before it there is none.
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
	h := db.index.with(s.m.ID)
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
	db.index.head = h
	s.stored()
	return nil
}

// records makes the payloads of the manifest and the tensor table, and adds their
// second copies to the batch.
func (s *saving) records() (manifest, table []byte, err error) {
	if table, err = encodeTable(s.db.opts.ChunkBytes, s.m.Tensors); err != nil {
		return nil, nil, err
	}
	to := links{table: hashOf(table)}
	if s.small != nil {
		to.small = s.secondCopy(s.pages.apart(s.small))
	}
	if manifest, err = encodeManifest(s.m, to); err != nil {
		return nil, nil, err
	}
	s.secondCopy(s.pages.spareRecords(s.m.ID, manifest, table))
	return manifest, table, nil
}

// stored adds the checkpoint to the index.
func (s *saving) stored() {
	enter := func(c Chunk) {
		if s.fresh[c.Hash] {
			s.fresh[c.Hash] = false
			s.db.index.written(c)
		}
		s.db.index.use(c.Hash)
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

// abort deletes the chunks that the save had written. It reads the index from the
// file again, because after a failed sync the state of the file is unknown. If
// the checkpoint is there after all, it stays, though an error was reported.
func (s *saving) abort(cause error) error {
	if s.commit != nil {
		<-s.commit
		s.commit = nil
	}
	if s.db.broken != nil {
		return cause
	}
	if err := s.db.reindex(); err != nil {
		return fmt.Errorf("%w; then also: %w", cause, err)
	}
	if err := s.db.reclaim(); err != nil && !outOfSpace(err) {
		return fmt.Errorf("%w; then also: %w", cause, err)
	}
	return cause
}
