package host

import (
	"cmp"
	"slices"
)

// layout gives every temporary an offset such that two that are live at once
// never overlap, and returns the bytes that they take together. It takes the
// largest first. Each goes to the smallest gap that fits it, between those with
// an offset whose lives overlap its own (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020, §5.2). stop is asked now and
// then; its error ends the layout.
func layout(temps []*storage, stop func() error) (int64, error) {
	total, _, err := layOut(temps, stop)
	return total, err
}

// layOut is layout. It also counts the looks at nodes and storages.
func layOut(temps []*storage, stop func() error) (total int64, looks int, err error) {
	order := slices.Clone(temps)
	slices.SortStableFunc(order, func(a, b *storage) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.first, b.first))
	})
	var placed shelf
	for i, s := range order {
		if i%1024 == 0 {
			if err := stop(); err != nil {
				return 0, placed.looks, err
			}
		}
		if s.size == 0 {
			continue
		}
		s.off = placed.bestGap(s)
		total = max(total, s.end())
		placed.add(s)
	}
	return total, placed.looks, nil
}
