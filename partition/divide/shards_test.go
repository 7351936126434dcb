package divide

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestReplicasRanges: the ranges of replicas follow each other, begin at multiples of the unit,
// have every element once, and no more than was asked for. Shares differ by a unit.
func TestReplicasRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shards{replicas: rapid.IntRange(1, 9).Draw(t, "replicas"), unit: rapid.IntRange(1, 7).Draw(t, "unit")}
		elems, most := rapid.IntRange(1, 200).Draw(t, "elements"), rapid.IntRange(0, 50).Draw(t, "most")
		var owners []int
		for i := range len(s.cuts(elems)) - 1 {
			owners = append(owners, i)
		}
		s.owners = map[string][]int{"": owners}
		end, shares := 0, make([]int, s.replicas)
		replica := 0
		for _, r := range s.ranges("", elems, most) {
			if r.from != end || r.count <= 0 || most > 0 && r.count > most || r.replica < replica {
				t.Fatalf("%+v, at most %d elements", s.ranges("", elems, most), most)
			}
			if r.replica > replica && r.from%s.unit != 0 {
				t.Fatalf("replica %d begins at %d, unit %d", r.replica, r.from, s.unit)
			}
			end, replica = end+r.count, r.replica
			shares[r.replica] += r.count
		}
		if end != elems {
			t.Fatalf("%d of %d elements are in a range", end, elems)
		}
		if least, largest := slices.Min(shares), slices.Max(shares); largest-least > 2*s.unit {
			t.Fatalf("shares of %d elements by %d: %v", elems, s.unit, shares)
		}
	})
}
