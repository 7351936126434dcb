package planner

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/internal/stop"
)

// layout gives every temporary an offset, a multiple of align, such that two
// that are live at once never overlap, and returns the bytes that they take
// together. It takes the largest first. Each goes to the smallest gap that fits
// it, between those with an offset whose lives overlap its own (Pisarchyk and
// Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, §5.2).
// It ends early, with check's error, once that is done.
func layout(temps []*Storage, align int64, check *stop.Check) (int64, error) {
	total, _, err := layOut(temps, align, check)
	return total, err
}

// layOut is layout. It also counts the looks at nodes and storages.
func layOut(temps []*Storage, align int64, check *stop.Check) (total int64, looks int, err error) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *Storage) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.first, b.first))
	})
	var placed shelf
	for _, s := range stop.Each(check, order) {
		if s.Size == 0 {
			continue
		}
		s.room = (s.Size + align - 1) / align * align
		s.Off = placed.bestGap(s)
		total = max(total, s.end())
		placed.add(s)
	}
	return total, placed.looks, check.Err()
}
