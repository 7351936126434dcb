package partition

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
)

// The bounds of a stage's memory hold for every range of blocks, in every kind of
// graph and schedule.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawNet(t)
		o := indexOptions{microbatches: s.microbatches, splits: rapid.Bool().Draw(t, "zb-h1"), tree: rapid.Bool().Draw(t, "tree")}
		g, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		if g, err = rapid.SampledFrom([]Recompute{RecomputeNone, RecomputeCheap, RecomputeBlock}).Draw(t, "recompute").apply(g, stop.When(nil)); err != nil {
			t.Fatal(err)
		}
		idx, err := newIndex(g, o, stop.When(nil))
		if err != nil {
			t.Fatal(err)
		}
		blocks := findBlocks(g)
		meter := newMeter(readyUnits(idx, place(idx, len(blocks), oneGroupEach(blocks))))
		b := newBounds(meter)
		for lo := range blocks {
			for hi := lo + 1; hi <= len(blocks); hi++ {
				f, err := meter.measure(lo, hi, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, flight := range []int{1, 5} {
					is := total(f.memory(flight))
					least, most := b.atLeast(lo, hi).Bytes(flight), b.atMost(lo, hi).Bytes(flight)
					if least > is || is > most {
						t.Fatalf("blocks %d to %d, %d in flight: %d, not from %d to %d; %+v", lo, hi-1, flight, is, least, most, f)
					}
				}
			}
		}
	})
}
