package checkpoint

import (
	"cmp"
	"context"
	"fmt"
)

// Verify reads every byte of a checkpoint, or of all for id 0, and hands report,
// which may be nil, all damage. The error is nil if there is none, and ErrHeld for a
// file that another process writes to.
func (db *DB) Verify(ctx context.Context, id uint64, report func(Skipped)) error {
	if db.live {
		return held(db.path, true)
	}
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
		return fmt.Errorf("%s: %w in %d places: copy the whole checkpoints into a new file", db.path, ErrDamaged, found)
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

// verify reads every chunk. Without report it stops at the first damage. With
// report, it reports every damaged chunk and returns the first error at the end.
func (s *Snapshot) verify(ctx context.Context, report func(error)) error {
	var first error
	for i := range s.Manifest.Tensors {
		err := s.eachChunk(ctx, &s.Manifest.Tensors[i], func(_ Chunk, read func() ([]byte, error)) error {
			_, err := read()
			if err == nil || report == nil {
				return err
			}
			report(err)
			first = cmp.Or(first, err)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return first
}

// verifySpares reads the second copies, if the file has them.
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
			return fmt.Errorf("%s: checkpoint %d: a second copy (%v): %w: copy the whole checkpoints into a new file", s.db.path, s.Manifest.ID, h, err)
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
