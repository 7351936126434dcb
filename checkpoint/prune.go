package checkpoint

import (
	"context"
	"errors"
	"slices"
)

// Keep says which checkpoints Prune keeps: those that any of its rules names.
// Damaged checkpoints do not count for Last and Best.
type Keep struct {
	Last  int // the number of newest ones; at least one is always kept
	Best  int // the number of best ones, by the metric that the newest one watches
	Every int // those at steps that are multiples of this; 0: the rule is off
}

// Prune deletes the checkpoints that k does not keep, and the chunks that no other
// uses. It returns the number of checkpoints deleted. Later saves use the room;
// [DB.Compact] gives it back.
//
// The checkpoints kept as the newest and the best are whole. To make sure, Prune
// reads those of their chunks that were neither written nor read since the file
// was opened; it does so only if there is something to delete, and until ctx ends.
//
// Prune leaves checkpoints alone that cannot be read, and damaged ones that are
// newer or better than those it keeps: the second result lists them. While the
// records of a checkpoint cannot be read, it deletes no chunks: delete such a
// checkpoint with [DB.Delete] once nothing can be salvaged from it.
func (db *DB) Prune(ctx context.Context, k Keep) (int, []Skipped, error) {
	db.writer.Lock()
	defer db.writer.Unlock()
	if err := db.writable(); err != nil {
		return 0, nil, err
	}
	ms, skipped, err := db.List()
	if err != nil {
		return 0, nil, err
	}
	gone, _, err := k.drops(ms, func(uint64) error { return nil })
	if len(gone) == 0 || err != nil {
		return 0, skipped, err
	}
	gone, bad, err := k.drops(ms, func(id uint64) error { return db.intact(ctx, id) })
	skipped = append(skipped, bad...)
	if err != nil {
		return 0, skipped, err
	}
	before := len(db.head.IDs)
	err = db.delete(gone)
	return before - len(db.head.IDs), skipped, err
}

// drops are the checkpoints that k does not keep (gone), and the damaged ones that
// it leaves alone (bad). whole tells whether a checkpoint is whole; an error of it
// other than ErrDamaged ends the search.
func (k Keep) drops(ms []Manifest, whole func(id uint64) error) (gone []uint64, bad []Skipped, err error) {
	newest := slices.Clone(ms)
	slices.Reverse(newest)
	kept := map[uint64]bool{}
	for _, rule := range []struct {
		order []Manifest
		n     int
	}{{newest, max(k.Last, 1)}, {byRank(ms), k.Best}} {
		more, err := keepWhole(rule.order, rule.n, kept, whole)
		bad = append(bad, more...)
		if err != nil {
			return nil, bad, err
		}
	}
	for _, m := range ms {
		if !kept[m.ID] && (k.Every <= 0 || m.Step%k.Every != 0) {
			gone = append(gone, m.ID)
		}
	}
	return gone, bad, nil
}

// keepWhole keeps the first checkpoints of ms, up to the n-th whole one. It returns
// the damaged ones among them that were not kept already.
func keepWhole(ms []Manifest, n int, kept map[uint64]bool, whole func(id uint64) error) (bad []Skipped, err error) {
	for _, m := range ms {
		if n <= 0 {
			break
		}
		err := whole(m.ID)
		switch {
		case err == nil:
			n--
		case !errors.Is(err, ErrDamaged):
			return bad, err
		case !kept[m.ID]:
			bad = append(bad, Skipped{m.ID, err})
		}
		kept[m.ID] = true
	}
	return bad, nil
}

// intact reads the chunks of a checkpoint that are not known to be whole. The
// caller holds db.writer.
func (db *DB) intact(ctx context.Context, id uint64) error {
	s, err := db.Load(id)
	if err != nil {
		return err
	}
	for i := range s.Manifest.Tensors {
		err := s.eachChunk(ctx, &s.Manifest.Tensors[i], func(c Chunk, read func() ([]byte, error)) error {
			st := db.chunks[c.Hash]
			if st != nil && st.good && st.size == c.Size {
				return nil
			}
			if _, err := read(); err != nil {
				return err
			}
			if st != nil {
				st.good, st.size = true, c.Size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
