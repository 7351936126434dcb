package footprint

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/recompute"
	"github.com/berth-ml/berth/partition/segment"
)

// The bounds of a stage's memory hold for every range of blocks, in every kind of
// graph and schedule.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		o := nodes.Options{Microbatches: s.Microbatches, Splits: rapid.Bool().Draw(t, "zb-h1"), Tree: rapid.Bool().Draw(t, "tree")}
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		if g, err = rapid.SampledFrom([]recompute.Kind{recompute.None, recompute.Cheap, recompute.Block}).Draw(t, "recompute").Apply(g, stop.When(nil)); err != nil {
			t.Fatal(err)
		}
		idx, err := nodes.New(g, o, stop.When(nil))
		if err != nil {
			t.Fatal(err)
		}
		blocks := nodes.Blocks(g)
		meter := NewMeter(segment.NewGroups(idx, place.Nodes(idx, len(blocks), nodes.OneGroupEach(blocks))))
		b := NewBounds(meter)
		for lo := range blocks {
			for hi := lo + 1; hi <= len(blocks); hi++ {
				f, err := meter.Measure(lo, hi, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, flight := range []int{1, 5} {
					is := nodes.Total(f.Memory(flight))
					least, most := b.AtLeast(lo, hi).Bytes(flight), b.AtMost(lo, hi).Bytes(flight)
					if least > is || is > most {
						t.Fatalf("blocks %d to %d, %d in flight: %d, not from %d to %d; %+v", lo, hi-1, flight, is, least, most, f)
					}
				}
			}
		}
	})
}
