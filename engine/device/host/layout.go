package host

import (
	"cmp"
	"math"
	"slices"
)

// layout gives every temporary an offset such that two that are live at once
// never overlap, and returns the bytes that they take together. It takes the
// largest first. Each goes to the smallest gap that fits it, between those with
// an offset whose lives overlap its own (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020, §5.2).
func layout(temps []*storage) int64 {
	total, _ := layOut(temps)
	return total
}

// layOut is layout. It also counts the looks at rows and storages.
func layOut(temps []*storage) (total int64, looks int) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	done := shelf{most: max(64, int(math.Sqrt(float64(len(temps)))))}
	for _, s := range order {
		if s.size == 0 {
			continue
		}
		s.off = done.bestGap(s)
		total = max(total, s.end())
		done.add(s)
	}
	return total, done.looks
}

// shelf is the storages that have an offset, by offset, in short rows. In a deep
// model thousands of storages are live at once, and they are mostly the same
// for one search as for the next. A row remembers a summary of its live
// storages, so most searches pass it with one look.
type shelf struct {
	rows  []*row
	most  int // storages in a row
	looks int // at rows and storages, by all searches
}

// row is neighbours on the shelf, with a summary of those that are live
// together with the storage of the last search. The summary also holds for
// every storage that begins from minFirst to maxFirst and ends from minLast to
// maxLast.
type row struct {
	all                []*storage
	minFirst, maxFirst int   // steps; minFirst > maxFirst if there is no summary
	minLast, maxLast   int   // steps
	off, end           int64 // bytes: the range of the live storages; off is -1 if there are none
	gap                int64 // bytes: the widest gap between them
}

// add puts s on the shelf.
func (h *shelf) add(s *storage) {
	if len(h.rows) == 0 {
		h.rows = []*row{{}}
	}
	i, found := slices.BinarySearchFunc(h.rows, s, func(r *row, s *storage) int {
		if len(r.all) == 0 {
			return 0
		}
		return cmp.Compare(r.all[0].off, s.off)
	})
	if !found && i > 0 {
		i--
	}
	r := h.rows[i]
	at, _ := slices.BinarySearchFunc(r.all, s, func(a, b *storage) int { return cmp.Compare(a.off, b.off) })
	r.all = slices.Insert(r.all, at, s)
	r.forget()
	if half := len(r.all) / 2; len(r.all) > h.most {
		next := &row{all: slices.Clone(r.all[half:])}
		next.forget()
		r.all = r.all[:half]
		h.rows = slices.Insert(h.rows, i+1, next)
	}
}

// bestGap is the offset of the smallest gap that fits s, the first of equals.
func (h *shelf) bestGap(s *storage) int64 {
	g := gaps{need: roundUp(s.size, alignment), best: -1}
	for _, r := range h.rows {
		h.looks++
		if s.first < r.minFirst || s.first > r.maxFirst || s.last < r.minLast || s.last > r.maxLast {
			h.looks += len(r.all)
			r.summarize(s)
		}
		switch {
		case r.off < 0:
		case r.gap < g.need:
			g.meet(r.off, r.end)
		default:
			h.looks += len(r.all)
			for _, t := range r.all {
				if t.last >= s.first && s.last >= t.first {
					g.meet(t.off, t.end())
				}
			}
		}
		if g.best >= 0 && g.size == g.need {
			break
		}
	}
	if g.best < 0 {
		return g.end
	}
	return g.best
}

// forget drops the summary of a row.
func (r *row) forget() { r.minFirst, r.maxFirst = math.MaxInt, math.MinInt }

// summarize notes which storages of the row are live together with s. Each
// storage narrows the lives for which that is so.
func (r *row) summarize(s *storage) {
	*r = row{all: r.all, minFirst: math.MinInt, maxFirst: math.MaxInt, minLast: math.MinInt, maxLast: math.MaxInt, off: -1}
	for _, t := range r.all {
		switch {
		case t.last < s.first:
			r.minFirst = max(r.minFirst, t.last+1)
		case s.last < t.first:
			r.maxLast = min(r.maxLast, t.first-1)
		default:
			r.maxFirst, r.minLast = min(r.maxFirst, t.last), max(r.minLast, t.first)
			if r.off < 0 {
				r.off = t.off
			} else {
				r.gap = max(r.gap, t.off-r.end)
			}
			r.end = max(r.end, t.end())
		}
	}
}

// gaps finds the smallest gap of at least need bytes.
type gaps struct {
	need       int64
	end        int64 // offset before which everything was met
	best, size int64 // the best gap so far; best is -1 if there is none
}

// meet passes a range that is taken. Ranges come by offset.
func (g *gaps) meet(off, end int64) {
	if gap := off - g.end; gap >= g.need && (g.best < 0 || gap < g.size) {
		g.best, g.size = g.end, gap
	}
	g.end = max(g.end, end)
}
