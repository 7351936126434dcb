package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

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

// rounds is the attempts to read a checkpoint while another process deletes each
// before it is read.
const rounds = 8

// firstOf is the first whole checkpoint in an order. Where another process deletes
// one before it is read, it begins again with those that there are then.
func (db *DB) firstOf(ctx context.Context, order func([]Manifest) []Manifest) (*Snapshot, []Skipped, error) {
	for range rounds {
		ms, skipped, err := db.list(ctx)
		if err != nil {
			return nil, nil, err
		}
		s, bad, err := db.firstWhole(ctx, order(ms))
		if !errors.Is(err, ErrDeleted) {
			return s, append(skipped, bad...), err
		}
	}
	return nil, nil, fmt.Errorf("%s: %w, and so were those after it: keep more of them (checkpoint.keep.last), save less often, or stop the run", db.path, ErrDeleted)
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
		return nil, skipped, fmt.Errorf("%s: %w: no checkpoint that fits has been saved", db.path, ErrNotFound)
	}
	return nil, skipped, fmt.Errorf("%s: %w: none of %d is whole", db.path, ErrNotFound, len(ms))
}
