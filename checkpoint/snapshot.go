package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

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
