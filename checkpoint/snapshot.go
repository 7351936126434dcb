package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// List returns the manifests of the checkpoints in order of saving, without their
// tensors, and the checkpoints that could not be read.
func (db *DB) List() ([]Manifest, []Skipped, error) { return db.list(context.Background()) }

func (db *DB) list(ctx context.Context) (ms []Manifest, skipped []Skipped, err error) {
	look := func(im *image) error {
		ms, skipped, err = db.listOf(ctx, im)
		return err
	}
	if db.live {
		err = db.steady(look)
	} else {
		err = db.read(look)
	}
	if err != nil {
		return nil, nil, err
	}
	return ms, skipped, nil
}

// listOf is list of one state of the file.
func (db *DB) listOf(ctx context.Context, im *image) ([]Manifest, []Skipped, error) {
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

// Latest is the newest whole checkpoint: it has read every chunk of it and found
// it as it was written. The second result lists newer checkpoints that are damaged,
// and others that could not be read: tell the user. The error is ErrNotFound if
// there is no whole checkpoint.
func (db *DB) Latest(ctx context.Context) (*Snapshot, []Skipped, error) {
	return db.firstOf(ctx, func(ms []Manifest) []Manifest {
		slices.Reverse(ms)
		return ms
	})
}

// Best is the whole checkpoint with the best value of the metric that the newest
// one watches; of equal ones, the oldest. Otherwise it is like Latest.
func (db *DB) Best(ctx context.Context) (*Snapshot, []Skipped, error) {
	return db.firstOf(ctx, byRank)
}

// How often a checkpoint is read while another process deletes each before it is read: so many times, and for so long.
const (
	leastRounds = 8
	leastTime   = 10 * time.Second
)

// UntilRead calls read, which reads the newest or the best checkpoint, again where another process has deleted that one
// meanwhile: then another one is the newest. Its error is read's, and says what to do where all were deleted.
func UntilRead(read func() error) error {
	for round, began := 1, time.Now(); ; round++ {
		err := read()
		if !errors.Is(err, ErrDeleted) {
			return err
		}
		if round >= leastRounds && time.Since(began) > leastTime {
			return fmt.Errorf("%w, and so were those before it: keep more of them (checkpoint.keep.last), save less often, or stop the run", err)
		}
	}
}

// firstOf is the first whole checkpoint in an order. Where another process deletes
// one before it is read, it begins again with those that there are then.
func (db *DB) firstOf(ctx context.Context, order func([]Manifest) []Manifest) (s *Snapshot, skipped []Skipped, err error) {
	err = UntilRead(func() error {
		ms, missing, err := db.list(ctx)
		if err != nil {
			return err
		}
		var bad []Skipped
		s, bad, err = db.firstWhole(ctx, order(ms))
		skipped = append(missing, bad...)
		if errors.Is(err, ErrDeleted) {
			err = fmt.Errorf("%s: %w", db.path, err)
		}
		return err
	})
	return s, skipped, err
}

// BestOf is the id of the best of the checkpoints that List returned, by the metric
// that the newest one watches; 0 if none has a value of it.
func BestOf(ms []Manifest) uint64 {
	if r := byRank(ms); len(r) > 0 {
		return r[0].ID
	}
	return 0
}

// byRank sorts the checkpoints that have a value of the metric that the newest one
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
		if errors.Is(err, ErrDeleted) || errors.Is(err, ErrNotFound) && db.live {
			return nil, skipped, ErrDeleted
		}
		skipped = append(skipped, Skipped{m.ID, err})
	}
	if len(ms) == 0 {
		return nil, skipped, fmt.Errorf("%s: %w: the file has no checkpoint yet, or none of the kind that is asked for", db.path, ErrNotFound)
	}
	return nil, skipped, fmt.Errorf("%s: %w: none of the %d checkpoints in the file is complete", db.path, ErrNotFound, len(ms))
}

// Load opens a checkpoint. It reads and checks the manifest and the tensor table;
// contents are read and checked when Read asks for them.
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
		return nil, fmt.Errorf("%s: checkpoint %d: %w: `trainer checkpoints ls %s` lists those that there are", db.path, id, err, db.path)
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

// Snapshot is a loaded checkpoint. It is also a Source: it can be saved into
// another file. Any goroutine may use it until its DB is closed.
type Snapshot struct {
	Manifest Manifest
	db       *DB
	byName   map[string]int
}

// Averaged is the checkpoint for answers: each parameter with an average, which training keeps
// under its name and /ema, has the average's contents. It is s where there are no averages.
func (s *Snapshot) Averaged() *Snapshot {
	a := &Snapshot{Manifest: s.Manifest, db: s.db, byName: make(map[string]int, len(s.byName))}
	a.Manifest.Tensors = nil
	for _, t := range s.Manifest.Tensors {
		if t.Role == roleAverage {
			continue
		}
		if i, ok := s.byName[t.Name+averageSuffix]; ok && s.Manifest.Tensors[i].Role == roleAverage && s.Manifest.Tensors[i].Meta.Equal(t.Meta) {
			t.Chunks = s.Manifest.Tensors[i].Chunks
		}
		a.byName[t.Name] = len(a.Manifest.Tensors)
		a.Manifest.Tensors = append(a.Manifest.Tensors, t)
	}
	if len(a.byName) == len(s.byName) {
		return s
	}
	return a
}

// The role of averages, and the end of their names: those of package graph.
const (
	roleAverage   = "average"
	averageSuffix = "/ema"
)

// Tensors lists the checkpoint's tensors in the order they were saved in.
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

// Read fills dst with the little-endian bytes of the named tensor, from byte off
// on. It checks every chunk it touches against its hash. After an error, the
// contents of dst are undefined.
func (s *Snapshot) Read(name string, off int64, dst []byte) error {
	i, ok := s.byName[name]
	if !ok {
		return s.noTensor(name)
	}
	t := &s.Manifest.Tensors[i]
	size := t.Meta.Bytes()
	if off < 0 || off > size || int64(len(dst)) > size-off {
		return fmt.Errorf("checkpoint %d: tensor %q %v has %d bytes: cannot read %d at %d", s.Manifest.ID, name, t.Meta, size, len(dst), off)
	}
	if len(dst) == 0 {
		return nil
	}
	// All chunks but the last are as long as the first. Chunk k begins at k*cut.
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

func (s *Snapshot) noTensor(name string) error {
	return fmt.Errorf("%s: checkpoint %d: tensor %q: %w", s.db.path, s.Manifest.ID, name, ErrNotFound)
}

// chunk reads the part of a chunk from byte skip on. It always reads and checks
// all of the chunk.
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
	if err != nil && s.db.deleted(s.Manifest.ID) {
		return fmt.Errorf("%s: checkpoint %d: %w", s.db.path, s.Manifest.ID, ErrDeleted)
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

// eachChunk hands f the chunks of a tensor, each with a function that reads and
// checks its contents. They are valid until the next chunk.
func (s *Snapshot) eachChunk(ctx context.Context, t *TensorEntry, f func(c Chunk, read func() ([]byte, error)) error) error {
	var buf []byte
	for k, c := range t.Chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f(c, func() ([]byte, error) {
			if len(buf) < c.Size {
				buf = make([]byte, c.Size)
			}
			return buf[:c.Size], s.chunk(t, k, 0, buf[:c.Size])
		})
		if err != nil {
			return err
		}
	}
	return nil
}
