package host

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/internal/stop"
)

// layout gives every temporary an offset such that two that are live at once
// never overlap, and returns the bytes that they take together. It takes the
// largest first. Each goes to the smallest gap that fits it, between those with
// an offset whose lives overlap its own (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020, §5.2). It ends early, with
// check's error, once that is done.
func layout(temps []*storage, check *stop.Check) (int64, error) {
	total, _, err := layOut(temps, check)
	return total, err
}

// layOut is layout. It also counts the looks at nodes and storages.
func layOut(temps []*storage, check *stop.Check) (total int64, looks int, err error) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	var placed shelf
	for _, s := range stop.Each(check, order) {
		if s.size == 0 {
			continue
		}
		s.off = placed.bestGap(s)
		total = max(total, s.end())
		placed.add(s)
	}
	return total, placed.looks, check.Err()
}
