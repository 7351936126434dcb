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

func outcome(_ graph.Op, in, out []Array) error {
	for r, x := range rows(in[0]) {
		t, err := class(in[1].I[r], r, len(x))
		if err != nil {
			return err
		}
		out[0].I[r] = int32(t*len(x) + firstLargest(x))
	}
	return nil
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

func rank(_ graph.Op, in, out []Array) error {
	for r, x := range rows(in[0]) {
		t, err := class(in[1].I[r], r, len(x))
		if err != nil {
			return err
		}
		before := 0
		for i, v := range x {
			nan, own := v != v, x[t] != x[t]
			if v > x[t] || own && !nan || i < t && (v == x[t] || own && nan) {
				before++
			}
		}
		out[0].I[r] = int32(before)
	}
	return nil
}

func tally(_ graph.Op, in, out []Array) error {
	copy(out[0].I, in[0].I)
	for i, k := range in[1].I {
		if k < 0 || int(k) >= len(out[0].I) {
			return fmt.Errorf("index %d at position %d is outside %d counts", k, i, len(out[0].I))
		}
		out[0].I[k]++
	}
	return nil
}
