package host

import (
	"cmp"
	"math"
	"slices"
)

// layout gives every temporary an offset such that two that are live at once
// never overlap, and returns the bytes that takes. Large ones are placed first,
// each in the smallest gap that holds it between those placed already whose
// lives overlap its own (Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020, §5.2).
func layout(temps []*storage) int64 {
	total, _ := layOut(temps)
	return total
}

// layOut is layout; it also says how many looks that took.
func layOut(temps []*storage) (total int64, looks int) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	placed := shelf{most: max(64, int(math.Sqrt(float64(len(temps)))))}
	for _, s := range order {
		if s.size == 0 {
			continue
		}
		s.off = placed.bestGap(s)
		total = max(total, s.end())
		placed.add(s)
	}
	return total, placed.looks
}

// end is where the next storage may begin.
func (s *storage) end() int64 { return s.off + roundUp(s.size, alignment) }

// shelf is the storages that are placed, by offset, in short rows. In a deep
// model thousands of them are live at once, and mostly the same ones as for the
// storage placed before; a row of which that is so is gone over in one look.
type shelf struct {
	rows  []*row
	most  int // storages in a row
	looks int // at rows and storages, by all searches
}

// row is neighbours on the shelf, and what is known of those that are live
// together with some storage: they are the same for each one that begins from
// minFirst to maxFirst and ends from minLast to maxLast.
type row struct {
	all                []*storage
	minFirst, maxFirst int
	minLast, maxLast   int
	off, end           int64 // where they begin, -1 if there are none, and end
	gap                int64 // the widest between them
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

// bestGap is the offset of the smallest gap that holds s, the first of equals.
func (h *shelf) bestGap(s *storage) int64 {
	g := gaps{need: roundUp(s.size, alignment), best: -1}
	for _, r := range h.rows {
		h.looks++
		if s.first < r.minFirst || s.first > r.maxFirst || s.last < r.minLast || s.last > r.maxLast {
			h.looks += len(r.all)
			r.know(s)
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

// forget makes nothing known of a row.
func (r *row) forget() { r.minFirst, r.maxFirst = math.MaxInt, math.MinInt }

// know finds which of the row are live together with s.
func (r *row) know(s *storage) {
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

// gaps is the smallest gap so far of those that are wide enough.
type gaps struct {
	need, end  int64 // end: up to where everything is met
	best, size int64 // best is -1 while there is none
}

// meet goes past what lies from off to end.
func (g *gaps) meet(off, end int64) {
	if gap := off - g.end; gap >= g.need && (g.best < 0 || gap < g.size) {
		g.best, g.size = g.end, gap
	}
	g.end = max(g.end, end)
}
