package host

import (
	"cmp"
	"slices"
)

// layout gives every temporary an offset such that two that are live at once
// never overlap, and returns the bytes that takes. Large ones are placed first,
// each in the smallest gap that holds it between those placed already whose
// lives overlap its own (Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020, §5.2).
func layout(temps []*storage) int64 {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	var placed []*storage // by offset
	var total int64
	for _, s := range order {
		if s.size == 0 {
			continue
		}
		s.off = bestGap(placed, s)
		total = max(total, s.end())
		i, _ := slices.BinarySearchFunc(placed, s, func(a, b *storage) int { return cmp.Compare(a.off, b.off) })
		placed = slices.Insert(placed, i, s)
	}
	return total
}

// end is where the next storage may begin.
func (s *storage) end() int64 { return s.off + roundUp(s.size, alignment) }

// bestGap is the offset of the smallest gap that holds s.
func bestGap(placed []*storage, s *storage) int64 {
	need := roundUp(s.size, alignment)
	var end, best int64 = 0, -1
	var bestSize int64
	for _, t := range placed {
		if t.last < s.first || s.last < t.first {
			continue
		}
		if gap := t.off - end; gap >= need && (best < 0 || gap < bestSize) {
			best, bestSize = end, gap
		}
		end = max(end, t.end())
	}
	if best < 0 {
		return end
	}
	return best
}
