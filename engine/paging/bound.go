package paging

import "math"

// Bound is the fewest bytes that any choice moves in a steady step within a
// limit: no plan of loads and spills, not even one that gives up objects byte
// by byte, moves less. It is 0 where the limit is 0 or the step does not fit.
//
// For each gap between two uses of an object, a share of its bytes is given up.
// At each launch, what is given up must make the rest fit. A byte given up costs
// 1 if it is loaded again, and 1 if it was written since its last copy out: once
// for all gaps until it is written again. Without that last rule this is a
// min-cost flow through the launches: intervals that cover them. The rule enters
// through prices: each gap carries a share of its copy out, and the shares that
// make the flow cost most are the bound.
func Bound(t *Trace, limit int64) int64 {
	if limit <= 0 || len(t.Launches) == 0 || t.Floor() > limit {
		return 0
	}
	r := newRelaxation(t, limit)
	if !r.short {
		return 0
	}
	r.improve()
	return int64(math.Ceil(r.best - 0.01))
}
