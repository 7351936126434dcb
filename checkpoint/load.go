package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Skipped is a checkpoint that could not be used, and why. ID 0 stands for
// damage that is not of one checkpoint.
type Skipped struct {
	ID  uint64
	Err error
}

// String is "checkpoint 7: …".
func (s Skipped) String() string {
	if s.ID == 0 {
		return s.Err.Error()
	}
	return fmt.Sprintf("checkpoint %d: %v", s.ID, s.Err)
}

// List gives the manifests of the checkpoints in order of saving, without
// their tensors, and what could not be read.
func (db *DB) List() ([]Manifest, []Skipped, error) { return db.list(context.Background()) }

func (db *DB) list(ctx context.Context) ([]Manifest, []Skipped, error) {
	im, unlock, err := db.reading()
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	var skipped []Skipped
	if im.note != nil {
		skipped = append(skipped, Skipped{0, im.note})
	}
	ids, lost, err := im.ids()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: list of checkpoints: %w", db.path, err)
	}
	for _, id := range lost {
		skipped = append(skipped, lostCheckpoint(id))
	}
	var ms []Manifest
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		m, err := im.manifest(id, false)
		if err != nil {
			skipped = append(skipped, Skipped{id, err})
			continue
		}
		ms = append(ms, *m)
	}
	return ms, skipped, nil
}

// lostCheckpoint is one that the head names, or any with 0.
func lostCheckpoint(id uint64) Skipped {
	if id == 0 {
		return Skipped{0, damaged("the record of what checkpoints there are: one may be missing")}
	}
	return Skipped{id, damaged("it is named in the head and is not there")}
}

// reading takes the lock for reading and gives the state to read.
func (db *DB) reading() (*image, func(), error) {
	db.mu.RLock()
	if db.closed || db.im == nil {
		db.mu.RUnlock()
		return nil, nil, fmt.Errorf("%s: %w", db.path, ErrClosed)
	}
	return db.im, db.mu.RUnlock, nil
}

// Latest is the newest whole checkpoint: every chunk of it has been read and
// found as it was written. What is newer, or whatever else could not be read,
// is in the second result; it is worth telling the user. ErrNotFound when no
// checkpoint is whole or there is none.
func (db *DB) Latest(ctx context.Context) (*Snapshot, []Skipped, error) {
	ms, skipped, err := db.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	slices.Reverse(ms)
	s, bad, err := db.firstWhole(ctx, ms)
	return s, append(skipped, bad...), err
}

// Best is the whole checkpoint with the best value of the metric that the
// newest one watches; of equal ones the older. Otherwise it is like Latest.
func (db *DB) Best(ctx context.Context) (*Snapshot, []Skipped, error) {
	ms, skipped, err := db.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, bad, err := db.firstWhole(ctx, byRank(ms))
	return s, append(skipped, bad...), err
}

// BestOf is the id of the checkpoint with the best value of the metric that
// the newest watches, of those that List gave; 0 where none has one.
func BestOf(ms []Manifest) uint64 {
	if r := byRank(ms); len(r) > 0 {
		return r[0].ID
	}
	return 0
}

// byRank gives the checkpoints that have a value of the metric the newest
// watches, best first.
func byRank(ms []Manifest) []Manifest {
	if len(ms) == 0 {
		return nil
	}
	by := ms[len(ms)-1].Best
	var ranked []Manifest
	for _, m := range ms {
		if _, ok := m.ranks(by); ok {
			ranked = append(ranked, m)
		}
	}
	slices.SortStableFunc(ranked, func(a, b Manifest) int {
		x, _ := a.ranks(by)
		y, _ := b.ranks(by)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return ranked
}

func (db *DB) firstWhole(ctx context.Context, ms []Manifest) (*Snapshot, []Skipped, error) {
	var skipped []Skipped
	for _, m := range ms {
		s, err := db.Load(m.ID)
		if err == nil {
			if err = s.verify(ctx, nil); err == nil {
				return s, skipped, nil
			}
		}
		if ctx.Err() != nil {
			return nil, skipped, ctx.Err()
		}
		skipped = append(skipped, Skipped{m.ID, err})
	}
	if len(ms) == 0 {
		return nil, skipped, fmt.Errorf("%s: %w: none that fits has been saved", db.path, ErrNotFound)
	}
	return nil, skipped, fmt.Errorf("%s: %w: none of %d is whole", db.path, ErrNotFound, len(ms))
}

// Load opens a checkpoint: its manifest and tensor table are read and checked,
// its contents are read and checked as Read asks for them.
func (db *DB) Load(id uint64) (*Snapshot, error) {
	var m *Manifest
	err := db.read(func(im *image) (err error) {
		m, err = im.manifest(id, true)
		if err != nil {
			if _, ok, e := im.lookup(bucketManifests, idKey(id)); e == nil && !ok && !im.rescued(id) {
				err = ErrNotFound
			}
		}
		return err
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("%s: checkpoint %d: %w: list the checkpoints to see which there are", db.path, id, err)
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("%s: checkpoint %d: %w: use another one", db.path, id, err)
	case err != nil:
		return nil, err
	}
	s := &Snapshot{Manifest: *m, db: db, byName: make(map[string]int, len(m.Tensors))}
	for i, t := range m.Tensors {
		s.byName[t.Name] = i
	}
	return s, nil
}

// Snapshot is a checkpoint that has been loaded. It is also a Source, so it can
// be saved into another file. It may be used from any goroutine, until its DB
// is closed.
type Snapshot struct {
	Manifest Manifest
	db       *DB
	byName   map[string]int
}

// Tensors lists what the checkpoint holds, in the order it was saved in.
func (s *Snapshot) Tensors() []Tensor {
	ts := make([]Tensor, len(s.Manifest.Tensors))
	for i, t := range s.Manifest.Tensors {
		ts[i] = t.Tensor
	}
	return ts
}

// Tensor finds a tensor by name.
func (s *Snapshot) Tensor(name string) (Tensor, bool) {
	i, ok := s.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return s.Manifest.Tensors[i].Tensor, true
}

// Read fills dst with the little-endian bytes of the named tensor from byte
// offset off on. Every chunk it touches is checked against its hash; on an
// error the contents of dst are undefined.
func (s *Snapshot) Read(name string, off int64, dst []byte) error {
	i, ok := s.byName[name]
	if !ok {
		return fmt.Errorf("%s: checkpoint %d: tensor %q: %w", s.db.path, s.Manifest.ID, name, ErrNotFound)
	}
	t := &s.Manifest.Tensors[i]
	size := t.Meta.Bytes()
	if off < 0 || off > size || int64(len(dst)) > size-off {
		return fmt.Errorf("checkpoint %d: tensor %q %v has %d bytes: cannot read %d at %d", s.Manifest.ID, name, t.Meta, size, len(dst), off)
	}
	if len(dst) == 0 {
		return nil
	}
	cut := int64(t.Chunks[0].Size)
	for k := off / cut; len(dst) > 0; k++ {
		skip := int(off - k*cut)
		n := min(len(dst), t.Chunks[k].Size-skip)
		if err := s.chunk(t, int(k), skip, dst[:n]); err != nil {
			return err
		}
		dst, off = dst[n:], off+int64(n)
	}
	return nil
}

// chunk reads part of a chunk, by way of the whole of it.
func (s *Snapshot) chunk(t *TensorEntry, k, skip int, dst []byte) error {
	c := t.Chunks[k]
	buf := dst
	if len(dst) != c.Size {
		buf = make([]byte, c.Size)
	}
	err := s.db.read(func(im *image) error { return im.chunk(c.Hash, buf) })
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: checkpoint %d: tensor %q: chunk %d of %d (%v): %w: use another checkpoint",
			s.db.path, s.Manifest.ID, t.Name, k, len(t.Chunks), c.Hash, err)
	}
	if len(dst) != c.Size {
		copy(dst, buf[skip:])
	}
	return nil
}

// verify reads every chunk. Without report it stops at the first damage; with
// it, report gets each, and the first is returned in the end.
func (s *Snapshot) verify(ctx context.Context, report func(error)) error {
	var first error
	var buf []byte
	for i := range s.Manifest.Tensors {
		t := &s.Manifest.Tensors[i]
		for k, c := range t.Chunks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if cap(buf) < c.Size {
				buf = make([]byte, c.Size)
			}
			err := s.chunk(t, k, 0, buf[:c.Size])
			if err != nil && report == nil {
				return err
			}
			if err != nil {
				report(err)
			}
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// Verify reads every byte of a checkpoint, or of all with id 0, and hands
// report (which may be nil) everything found damaged. The error is nil when
// all is whole.
func (db *DB) Verify(ctx context.Context, id uint64, report func(Skipped)) error {
	if report == nil {
		report = func(Skipped) {}
	}
	if id != 0 {
		return db.verifyOne(ctx, id, report)
	}
	ms, skipped, err := db.list(ctx)
	if err != nil {
		return err
	}
	found := len(skipped)
	for _, s := range skipped {
		report(s)
	}
	for _, m := range ms {
		if err := db.verifyOne(ctx, m.ID, report); err != nil {
			found++
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := db.verifyPages(); err != nil {
		report(Skipped{0, err})
		found++
	}
	if found > 0 {
		return fmt.Errorf("%s: %w in %d places: copy what is whole into a new file", db.path, ErrDamaged, found)
	}
	return nil
}

func (db *DB) verifyOne(ctx context.Context, id uint64, report func(Skipped)) error {
	s, err := db.Load(id)
	if err != nil {
		report(Skipped{id, err})
		return err
	}
	err = s.verify(ctx, func(err error) { report(Skipped{id, err}) })
	if e := s.verifySpares(); e != nil {
		report(Skipped{id, e})
		if err == nil {
			err = e
		}
	}
	return err
}

// verifySpares reads the second copies, where there are.
func (s *Snapshot) verifySpares() error {
	im, unlock, err := s.db.reading()
	if err != nil {
		return err
	}
	defer unlock()
	hashes, err := im.spares(s.Manifest.ID)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		if _, ok, err := im.lookup(bucketChunks, h[:]); err != nil || !ok {
			return err
		}
		c, err := im.chunkAt(h)
		if err == nil && (c.packed || c.size > im.size) {
			err = damaged("it has %d bytes", c.size)
		}
		if err == nil {
			err = im.fill(make([]byte, c.size), h, c)
		}
		if err != nil {
			return fmt.Errorf("%s: checkpoint %d: a second copy (%v): %w: copy what is whole into a new file", s.db.path, s.Manifest.ID, h, err)
		}
	}
	return nil
}

func (db *DB) verifyPages() error {
	im, unlock, err := db.reading()
	if err != nil {
		return err
	}
	defer unlock()
	return im.check()
}
