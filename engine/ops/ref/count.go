package ref

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var counts = map[string]kernel{
	"outcome":        outcome,
	"binary_outcome": of(binaryOutcome),
	"rank":           rank,
	"tally":          tally,
}

// firstLargest is the index of the largest element, the first of equals.
func firstLargest(x []float64) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

func outcome(op graph.Op, in, out []Array) error {
	fillPadding(out[0])
	return eachClass(in[0], in[1], op.(ops.Outcome).Padded, func(r int, x []float64, class int) {
		out[0].I[r] = int32(class*len(x) + firstLargest(x))
	})
}

// fillPadding gives all rows the number of those without a target.
func fillPadding(x Array) {
	for r := range x.I {
		x.I[r] = -1
	}
}

func binaryOutcome(_ ops.BinaryOutcome, in, out []Array) {
	per := in[0].Meta.Shape[1:].Elems()
	for i, x := range in[0].F {
		cell := 4 * (i % per)
		if in[1].F[i] > 0.5 {
			cell += 2
		}
		if x > 0 {
			cell++
		}
		out[0].I[i] = int32(cell)
	}
}

func rank(op graph.Op, in, out []Array) error {
	fillPadding(out[0])
	return eachClass(in[0], in[1], op.(ops.Rank).Padded, func(r int, x []float64, class int) {
		before := 0
		for i, v := range x {
			nan, own := v != v, x[class] != x[class]
			if v > x[class] || own && !nan || i < class && (v == x[class] || own && nan) {
				before++
			}
		}
		out[0].I[r] = int32(before)
	})
}

func tally(op graph.Op, in, out []Array) error {
	copy(out[0].I, in[0].I)
	for i, k := range in[1].I {
		if op.(ops.Tally).Padded && k == -1 {
			continue
		}
		if k < 0 || int(k) >= len(out[0].I) {
			return fmt.Errorf("index %d at position %d is not from 0 to below %d, the number of counts", k, i, len(out[0].I))
		}
		out[0].I[k]++
	}
	return nil
}
