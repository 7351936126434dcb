package saver

import (
	"context"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
)

// Ranks are the processes that have a run's variables. One of them has the file, and asks the others for what it lacks,
// chunk by chunk, while it writes; each has copied its variables before training went on.
type Ranks struct {
	Rank, Writer int
	Holder       func(variable string) int // the rank that has a variable's newest contents
	Others       []int                     // the ranks that the writer borrows from
	Borrow       func(rank int) Reader
	// Lend gives the writer bytes of parts, until it has all: a part's number, and the place among its variable's bytes.
	Lend func(ctx context.Context, read func(part int, off int64, dst []byte) error) error
}

// Reader gives bytes of another rank's parts, as Ranks.Lend does there.
type Reader interface {
	Read(ctx context.Context, part int, off int64, dst []byte) error
	End(ctx context.Context) error
}

// divide notes who has which part now.
func (c *source) divide(r *Ranks) {
	if r == nil {
		return
	}
	c.rank = r.Rank
	for _, v := range c.vars {
		c.of = append(c.of, r.Holder(v.Name))
	}
	if r.Rank != r.Writer {
		return
	}
	c.from = map[int]Reader{}
	for _, rank := range r.Others {
		c.from[rank] = r.Borrow(rank)
	}
}

// here reports whether this process has a part.
func (c *source) here(k int) bool { return c.of == nil || c.of[k] == c.rank }

// readElsewhere copies bytes of a part of another rank, from byte off of its variable on.
func (c *source) readElsewhere(k int, off int64, dst []byte) error {
	if err := c.from[c.of[k]].Read(c.ctx, k, off, dst); err != nil {
		return err
	}
	if x := &c.list[c.parts[k].variable]; x.Role == graph.Parameter.String() {
		return finite(x, off, dst)
	}
	return nil
}

// end tells the other ranks that nothing is borrowed any more.
func (c *source) end() (err error) {
	for _, r := range c.from {
		if failed := r.End(c.ctx); err == nil {
			err = failed
		}
	}
	return err
}

// lend lends this rank's parts to the one that writes. If they could not be copied, broken says why, and the writer gets
// that in place of them.
func (s *Saver) lend(ctx context.Context, src *source, broken error) error {
	err := s.opt.Ranks.Lend(ctx, func(k int, off int64, dst []byte) error {
		switch {
		case broken != nil:
			return broken
		case k >= len(src.parts) || !src.here(k):
			return fmt.Errorf("BUG: part %d is on another rank", k)
		}
		return src.readPart(k, off, dst)
	})
	if err == nil {
		err = broken
	}
	return err
}
